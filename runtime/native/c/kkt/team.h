/* Threads of one call. */
#ifndef KKT_TEAM_H
#define KKT_TEAM_H

/* Calls task(of, k) for k = 0, ..., n - 1 on this thread and up to n - 1 others, and waits for all. Each
 * takes what nobody has begun: one that does not get a processor in time, or cannot be started, is done
 * without. The threads end with the call, so that nothing is left for a process that forks, and calls by
 * several threads do not know each other; starting one takes some ten microseconds. */
void kkt_team(int n, void (*task)(void *of, int k), void *of);

#endif
