/* SPDX-License-Identifier: MIT
 *
 * Eight threads on four queues, at random: submit with waits for other queues, take queues, wait,
 * watch, let tasks fail and queues recover. What every command must find when it runs is kept in
 * plain variables, so that the queue's order is what makes reading them right.
 */
#include "rig.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 8, MOST = 4000, MOST_DEPS = 3 };

typedef struct command {
    struct player *by;
    int queue, number;                    /* of this thread's commands on that queue */
    const struct command *dep[MOST_DEPS]; /* of other queues, to be done before */
    int n_dep;
    tk_point in_task[RIG_QUEUES]; /* what the task itself waits for */
    size_t n_in_task;
    struct command *child; /* or NULL: a task that it submits, to wait for its own queue */
    bool fails;
    uint64_t ticket;
    int ran, released; /* plain */
    bool refused;      /* a child */
} command;

typedef struct player {
    struct game *game;
    uint64_t seed;
    command *all;
    int n;
    command *last[RIG_QUEUES];   /* of each queue */
    int next_number[RIG_QUEUES]; /* of submitted commands */
    int seen_number[RIG_QUEUES]; /* of those that ran: written on the queue */
    pthread_t thread;
    int waits, entered, refused;
    command *children;
    int n_children;
} player;

typedef struct game {
    rig r;
    bool may_fail;
    int rounds;
    uint64_t executed[RIG_QUEUES]; /* plain: written on the queue */
    _Atomic int wrong;             /* lines of broken promises */
    player players[THREADS];
} game;

static void expect(game *g, bool ok, int line) {
    if (!ok) {
        int none = 0;
        atomic_compare_exchange_strong(&g->wrong, &none, line);
    }
}
#define EXPECT(g, ok) expect(g, ok, __LINE__)

static void played(command *c) {
    game *g = c->by->game;
    /* In the order of submission; of a discarded stretch some are left out. Children are in none.
     */
    int *seen = &c->by->seen_number[c->queue];
    if (c->number) {
        EXPECT(g, g->may_fail ? c->number > *seen : c->number == *seen + 1);
        *seen = c->number;
    }
    g->executed[c->queue]++;
    for (int i = 0; i < c->n_dep; i++)
        EXPECT(g, c->dep[i]->ran);
    c->ran = 1;
}

static void released(void *arg) {
    command *c = arg;
    c->released++;
}

/* What a task waits for was submitted before it: that is never a circle. */
static tolk_status play(void *arg, tolk_error *err) {
    command *c = arg;
    game *g = c->by->game;
    (void)err;
    for (size_t i = 0; i < c->n_in_task; i++) {
        tolk_status st = tk_queue_wait(c->in_task[i].queue, c->in_task[i].ticket, NULL);
        EXPECT(g, st == TOLK_OK || (g->may_fail && st == TOLK_E_IO));
        if (st != TOLK_OK)
            return st;
    }
    if (c->fails)
        return TOLK_E_IO;
    played(c);
    if (c->child) {
        tk_point after = {g->r.q[c->queue], tk_queue_now(g->r.q[c->queue])};
        tk_command k = {.run = play,
                        .release = released,
                        .arg = c->child,
                        .label = "child",
                        .after = &after,
                        .n_after = 1};
        tolk_status st = tk_queue_submit(g->r.q[c->child->queue], &k, &c->child->ticket, NULL);
        EXPECT(g, st == TOLK_OK || (g->may_fail && st == TOLK_E_IO));
        c->child->refused = st != TOLK_OK;
    }
    return TOLK_OK;
}

static uint64_t roll(player *p, uint64_t n) {
    return tk_test_rand(&p->seed) % n;
}

/* A new command of this thread with up to three earlier ones of its own to wait for, which the
 * model can look at: they cannot have been discarded where nothing fails. */
static command *prepare(player *p, int queue, tk_point *after, size_t *n) {
    command *c = &p->all[p->n++];
    *c = (command){.by = p, .queue = queue, .number = p->next_number[queue] + 1};
    *n = 0;
    for (int i = 0; i < RIG_QUEUES && c->n_dep < MOST_DEPS; i++) {
        command *last = p->last[i];
        if (i == queue || roll(p, 3))
            continue;
        if (last && roll(p, 2)) {
            after[(*n)++] = (tk_point){p->game->r.q[i], last->ticket};
            if (!p->game->may_fail)
                c->dep[c->n_dep++] = last;
        } else { /* everybody's */
            after[(*n)++] = (tk_point){p->game->r.q[i], tk_queue_now(p->game->r.q[i])};
        }
    }
    return c;
}

static void did(player *p, command *c) {
    p->next_number[c->queue]++;
    p->last[c->queue] = c;
}

static void one_submit(player *p, int queue) {
    tk_point after[RIG_QUEUES];
    size_t n;
    command *c = prepare(p, queue, after, &n), *child = NULL;
    c->fails = p->game->may_fail && !roll(p, 40);
    if (!roll(p, 4)) {
        memcpy(c->in_task, after, n * sizeof *after);
        c->n_in_task = n;
        n = 0;
    }
    if (!roll(p, 8)) {
        child = &p->children[p->n_children++];
        *child = (command){.by = p, .queue = (int)roll(p, RIG_QUEUES), .refused = true};
        c->child = child;
    }
    tk_command k = {
        .run = play, .release = released, .arg = c, .label = "play", .after = after, .n_after = n};
    tolk_status st = tk_queue_submit(p->game->r.q[queue], &k, &c->ticket, NULL);
    if (st == TOLK_OK) {
        did(p, c);
    } else {
        p->n--;
        p->refused++;
        EXPECT(p->game, p->game->may_fail && st == TOLK_E_IO);
        if (!roll(p, 3))
            EXPECT(p->game, tk_queue_recover(p->game->r.q[queue], NULL) == TOLK_OK);
    }
}

static void one_enter(player *p, int queue) {
    tk_point after[RIG_QUEUES];
    size_t n;
    command *c = prepare(p, queue, after, &n);
    if (!tk_queue_enter(p->game->r.q[queue], after, n, &c->ticket)) {
        p->n--;
        return;
    }
    p->entered++;
    c->released = 1; /* nobody else's business */
    did(p, c);
    played(c);
    tk_queue_leave(p->game->r.q[queue], TOLK_OK, NULL, "enter");
}

static void one_wait(player *p, int queue) {
    command *c = p->last[queue];
    if (!c)
        return;
    tk_queue *q = p->game->r.q[queue];
    p->waits++;
    switch (roll(p, 3)) {
    case 0: {
        tolk_status st = tk_queue_wait(q, c->ticket, NULL);
        EXPECT(p->game, st == TOLK_OK || (p->game->may_fail && st == TOLK_E_IO));
        if (st == TOLK_OK && !p->game->may_fail)
            EXPECT(p->game, c->ran && c->released);
        break;
    }
    case 1: {
        tk_watch w;
        tolk_status st = tk_queue_mark(q, &w, NULL);
        if (st == TOLK_OK) {
            int on = (int)roll(p, RIG_QUEUES);
            st = tk_queue_wait_for(p->game->r.q[on], &w, NULL);
            EXPECT(p->game, st == TOLK_OK || (p->game->may_fail && st == TOLK_E_IO));
            st = tk_queue_wait_watched(&w, NULL);
            EXPECT(p->game, (st == TOLK_OK) == tk_queue_done_watched(&w));
            tk_queue_unwatch(&w);
        }
        EXPECT(p->game, st == TOLK_OK || (p->game->may_fail && st == TOLK_E_IO));
        break;
    }
    default:
        if (tk_queue_done(q, c->ticket) && !p->game->may_fail)
            EXPECT(p->game, c->ran && c->released);
    }
}

static void *play_all(void *arg) {
    player *p = arg;
    for (int i = 0; i < p->game->rounds; i++) {
        int queue = (int)roll(p, RIG_QUEUES);
        uint64_t what = roll(p, 10);
        if (what < 5)
            one_submit(p, queue);
        else if (what < 8)
            one_enter(p, queue);
        else
            one_wait(p, queue);
    }
    return NULL;
}

static void play_a_game(bool inline_only, bool may_fail, uint64_t seed, uint32_t spin_us) {
    game *g = calloc(1, sizeof *g);
    assert_non_null(g);
    g->may_fail = may_fail;
    g->rounds = (int)(tk_test_count(40000) < MOST ? tk_test_count(40000) : MOST);
    rig_open(&g->r, RIG_QUEUES, inline_only, spin_us);
    for (int i = 0; i < THREADS; i++) {
        player *p = &g->players[i];
        p->game = g;
        p->seed = seed + (uint64_t)i;
        p->all = calloc(MOST, sizeof *p->all);
        p->children = calloc(MOST, sizeof *p->children);
        assert_non_null(p->all);
        assert_non_null(p->children);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&g->players[i].thread, NULL, play_all, &g->players[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(g->players[i].thread, NULL);
    for (int round = 0; round < 2; round++) /* children come late */
        for (int i = 0; i < RIG_QUEUES; i++) {
            tolk_status st = tk_queue_await(g->r.q[i], NULL);
            EXPECT(g, st == TOLK_OK || (may_fail && st == TOLK_E_IO));
            EXPECT(g, !round || tk_queue_idle(g->r.q[i]));
        }
    uint64_t ran[RIG_QUEUES] = {0};
    for (int i = 0; i < THREADS; i++) {
        const player *p = &g->players[i];
        for (int k = 0; k < p->n; k++) {
            EXPECT(g, p->all[k].released == 1);
            EXPECT(g, p->all[k].ran || may_fail);
            ran[p->all[k].queue] += p->all[k].ran != 0;
        }
        for (int k = 0; k < p->n_children; k++) {
            const command *c = &p->children[k];
            EXPECT(g, c->released == !c->refused);
            EXPECT(g, c->ran == !c->refused || may_fail);
            ran[c->queue] += c->ran != 0;
        }
    }
    for (int i = 0; i < RIG_QUEUES; i++)
        EXPECT(g, ran[i] == g->executed[i]);
    int wrong = g->wrong;
    tolk_status st = rig_close(&g->r);
    for (int i = 0; i < THREADS; i++)
        free(g->players[i].all), free(g->players[i].children);
    free(g);
    if (wrong)
        fail_msg("line %d was broken: seed %llu", wrong, (unsigned long long)seed);
    assert_true(st == TOLK_OK || (may_fail && st == TOLK_E_IO));
}

static void play_games(bool inline_only, bool may_fail) {
    for (uint64_t k = 0; k < 3; k++)
        play_a_game(inline_only, may_fail, tk_test_seed() + 100 * k, k == 0 ? 0 : 20);
}
static void test_eight_threads_on_four_queues(bool inline_only) {
    play_games(inline_only, false);
}
RIG_BOTH(test_eight_threads_on_four_queues)
static void test_eight_threads_with_failures_and_recoveries(bool inline_only) {
    play_games(inline_only, true);
}
RIG_BOTH(test_eight_threads_with_failures_and_recoveries)

int main(void) {
    const struct CMUnitTest tests[] = {
        RIG_TESTS(test_eight_threads_on_four_queues),
        RIG_TESTS(test_eight_threads_with_failures_and_recoveries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
