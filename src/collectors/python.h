/* Which Pythons do not load infprof's package though `record --python` asks for it. */
#pragma once

/* 'I', 'S' or 'E': with this option a Python takes no notice of PYTHONPATH, or of what lies there. 0: the command line, ended by NULL, has
 * none of them, or is another program's. */
char infp_python_refusal(char *const *command);
