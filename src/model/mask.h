/* Secrets: values of arguments, environment variables and URLs whose name or shape says that they are secret become ***. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Masks in a command line whose arguments are separated by NUL (as /proc/PID/cmdline, the last NUL may be missing), writes it
 * with blanks between the arguments. An argument that holds blanks or is empty is shown in single quotes. Returns the size
 * (<= cap). What is masked: --api-key VALUE, --token=VALUE, KEY=VALUE where the name matches key, token, secret, password,
 * authorization (in any case), and, unless the value is a path or a word such as `basic`, auth, credentials, jwt, pat, cookie,
 * session-id; the password of -u USER:PASSWORD, cookies of -b, headers of -H but harmless ones, Pwd= of connection strings;
 * tokens known by their shape (hf_..., sk-..., JWT), PEM blocks; user:pass@, such query parameters, and the paths
 * of webhooks in URLs. With keep nothing is masked. */
size_t infp_mask_cmdline(const char *arguments, size_t size, bool keep, char *ret, size_t cap);

/* The same for a text that is no command line (what a server says, a label): without quotes around it. */
size_t infp_mask_text(const char *text, size_t size, char *ret, size_t cap);

/* The same for arguments that come one by one, without quotes. *said: what those before said of this one; 0 before the first. */
size_t infp_mask_next(unsigned *said, const char *text, size_t size, char *ret, size_t cap);

/* True when a variable, parameter or header of this name holds a secret. */
bool infp_mask_is_secret_name(const char *name, size_t size);
