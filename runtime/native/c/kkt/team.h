/* Threads of one call. */
#ifndef KKT_TEAM_H
#define KKT_TEAM_H

/* Calls task(of, k) for k = 0, ..., n - 1, each on a thread of its own, 0 on this one, and waits for
 * all. The threads end with the call, so that nothing is left for a process that forks, and calls by
 * several threads do not know each other; starting one takes some ten microseconds. One that cannot
 * be started is done without. */
void kkt_team(int n, void (*task)(void *of, int k), void *of);

#endif
