/* Secrets: values of arguments, environment variables and URLs whose name or shape says that they are secret become ***. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Masks in a command line whose arguments are separated by NUL (as /proc/PID/cmdline, the last NUL may be missing), writes it
 * with blanks between the arguments. An argument that holds blanks or is empty is shown in single quotes. Returns the size
 * (<= cap). What is masked: --api-key VALUE, --token=VALUE, KEY=VALUE where the name matches key, token, secret, password,
 * authorization (in any case; also -H "Authorization: ..."); hf_... and sk-... wherever they stand as a word; user:pass@ and
 * such query parameters in URLs. With keep nothing is masked. */
size_t infp_mask_cmdline(const char *arguments, size_t size, bool keep, char *ret, size_t cap);

/* True when a variable, parameter or header of this name holds a secret. */
bool infp_mask_is_secret_name(const char *name, size_t size);
