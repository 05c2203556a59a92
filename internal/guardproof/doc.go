// Package guardproof checks schema guard the way databases are checked: with a
// sequential model of its contract, and several ways to drive real sessions
// against a real server and ask the model to explain what they saw.
//
//   - Interleavings: every order of the steps of two and of three sessions, in
//     explicit transactions, from every state that a key can be in, with a
//     clock that the test sets to the microsecond. A step is over when its call
//     has returned or waits for a lock; nothing sleeps.
//   - Histories: sessions that run freely, with the real times of each call and
//     return, checked for linearizability with porcupine.
//   - State machine: long random sequences of calls, answer by answer, with rapid.
//   - Different keys: transactions on keys of their own, in every order, none of
//     which may fail another in any isolation level.
//   - A suite of directed tests, Run, for every target that the guard claims to
//     work on: PostgreSQL 15 to 18 (package versions), all query exec modes of
//     pgx, and PgBouncer in transaction mode.
//   - Kills: backends and whole servers, killed after each step and under load.
//   - Seeded bugs: faults put into the functions' text, each of which a checker
//     must find, so that a checker which finds nothing means something.
//
// The functions under test are the installed ones. Where a test has to change
// one (the name of the clock, a place to stop, a seeded bug) it changes the
// text that the database itself gives, in a copy of the database, and fails
// when that text is not there.
package guardproof
