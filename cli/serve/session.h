/* Sessions: streams with names, in memory and in files. Only the engine calls these functions. */
#ifndef LL_SESSION_H
#define LL_SESSION_H

#include "serve/api_keys.h"
#include "serve/served_models.h"

struct ll_serve_job;

typedef struct ll_session {
    char id[LL_SESSION_ID];
    ll_served *model;
    char owner[LL_OWNER + 1];
    ll_stream *stream;  /* NULL: only on disk */
    int busy;           /* a job uses it */
    int deleted;        /* by a client, while a job used it: nobody has it any more */
    int dirty;          /* the stream is newer than its files */
    int broken;         /* a step failed half-way: there is no stream until it is restored */
    int saved, swapped; /* which files exist: that of `save`; that of an eviction from memory */
    int64_t position;
    size_t bytes, disk;
    struct ll_session *newer, *older; /* in the order of last use */
    struct ll_session *chain;         /* next in its bucket of the hash table */
} ll_session;

/* Finds the sessions of earlier runs in --state-dir. -1, or the exit code. */
int ll_sessions_open(void);
int ll_sessions_close(void); /* saves and frees all; the number that could not be saved */
/* A session that has read nothing, or what another one has read. */
ll_session *ll_session_new(ll_served *m, const ll_session *from, int key, ll_refusal *why);
ll_session *ll_session_find(const char *id, int key, ll_refusal *why); /* also loads it into memory */
ll_session *ll_session_peek(const char *id, int key, ll_refusal *why); /* does not load it */
int ll_session_save(ll_session *s, ll_refusal *why);
int ll_session_restore(ll_session *s, ll_refusal *why);
void ll_session_delete(ll_session *s);
/* Evicts sessions until they keep to --session-memory, before one grows that is busy. 0, or -1 and `why`. */
int ll_session_room(ll_refusal *why);
void ll_session_used(ll_session *s); /* after its stream has read tokens; it may be evicted */
ll_session *ll_session_next(const ll_session *s); /* next older one; of NULL, the newest */
int ll_session_owned(const ll_session *s, int key);

int64_t ll_session_position(const char *path); /* of a file of a session; -1: it does not tell */

/* Carries out a job on sessions. 1: it has been answered; 0: its choice has yet to run. */
int ll_session_call(struct ll_serve_job *job);

#endif
