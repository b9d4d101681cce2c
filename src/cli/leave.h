/* How the program ends while a thread hangs in somebody else's library. */
#pragma once

/* A thread has not returned from its call, and will not be waited for. */
void infp_leave_behind(void);
/* Returns code. With a thread left behind it does not return: the end of libraries may wait for what that thread holds. */
int infp_leave(int code);
