package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// settleWithin is above what a key takes that the last dead holder left: its
	// lease, and the inquiries after it.
	settleWithin = 5 * lease
	// askers bounds the requests of askAgain at a time.
	askers = 16
)

// makeDueSQL spares the run the reconciler's and the outbox's growing waits. It
// leaves alone what a holder is at work on.
var makeDueSQL = []string{
	"UPDATE payments.charges SET due_at = now() WHERE due_at > now() AND status <> 'processing'",
	"UPDATE payments.refunds SET due_at = now() WHERE due_at > now() AND status <> 'processing'",
	"UPDATE payments.outbox SET due_at = now() WHERE due_at > now() AND delivered_at IS NULL",
}

// openSQL counts what has no end yet.
const openSQL = `SELECT (SELECT count(*) FROM payments.charges WHERE due_at IS NOT NULL),
       (SELECT count(*) FROM payments.refunds WHERE due_at IS NOT NULL),
       (SELECT count(*) FROM payments.outbox WHERE delivered_at IS NULL),
       (SELECT count(*) FROM guard.idempotency_keys WHERE completed_at IS NULL)`

// unended is what openSQL counts.
type unended struct{ charges, refunds, mails, keys int }

func (w *world) unended(ctx context.Context) (u unended, err error) {
	err = w.database.owner(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, openSQL).Scan(&u.charges, &u.refunds, &u.mails, &u.keys)
	})
	if err != nil {
		return u, fmt.Errorf("count what has no end: %w", err)
	}
	return u, nil
}

// settle waits until the servers have ended everything by themselves, or the
// time in which they have to is over.
func (w *world) settle(ctx context.Context) error {
	for _, server := range w.servers {
		server.Continue()
		if err := server.Start(ctx); err != nil {
			return err
		}
	}
	for began := time.Now(); ; {
		err := w.database.owner(ctx, func(conn *pgx.Conn) error {
			for _, sql := range makeDueSQL {
				if _, err := conn.Exec(ctx, sql); err != nil {
					return fmt.Errorf("make due what is open: %w", err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
		left, err := w.unended(ctx)
		if err != nil {
			return err
		}
		if left == (unended{}) || time.Since(began) > settleWithin {
			w.say("without an end after %.1f s: %d charges, %d refunds, %d mails, %d keys", time.Since(began).Seconds(),
				left.charges, left.refunds, left.mails, left.keys)
			return nil
		}
	}
}

// askAgain repeats every request that was ever made until it has an end, as a
// client who was left without one may.
func (w *world) askAgain(ctx context.Context) {
	waiting := make(chan *story)
	var running sync.WaitGroup
	for i := range askers {
		c := newClient(w, w.options.Clients+i)
		running.Go(func() {
			defer c.http.CloseIdleConnections()
			for s := range waiting {
				c.until(ctx, s)
			}
		})
	}
	for _, s := range w.diary.all() {
		waiting <- s
	}
	close(waiting)
	running.Wait()
}
