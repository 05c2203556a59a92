package doctor

import (
	"context"
	"fmt"
	"time"
)

// How long work may wait before somebody should look.
const (
	// purgeWait is twice the time between two purges of the nightly schedule.
	purgeWait = 48 * time.Hour
	// doubtWait is many times a lease, and the longest wait between two inquiries.
	doubtWait = time.Hour
	// dueWait is many rounds of the reconciler.
	dueWait = 15 * time.Minute
)

// keys judges guard.stats, which reads the whole table, hence once.
func keys(ctx context.Context, p *patient) ([]Finding, error) {
	var expired, inDoubt int64
	var oldestExpired, oldestLease *time.Time
	var purgeWaits, doubtLasts *float64
	err := p.conn.QueryRow(ctx, `
		SELECT s.expired, s.oldest_expired_at, extract(epoch FROM n.now - s.oldest_expired_at)::pg_catalog.float8,
		       s.in_doubt, s.oldest_lease_past_due, extract(epoch FROM n.now - s.oldest_lease_past_due)::pg_catalog.float8
		  FROM guard.stats() AS s, pg_catalog.clock_timestamp() AS n (now)`).
		Scan(&expired, &oldestExpired, &purgeWaits, &inDoubt, &oldestLease, &doubtLasts)
	if err != nil {
		return nil, fmt.Errorf("count the keys: %w", err)
	}
	var found []Finding
	if longerThan(purgeWaits, purgeWait) {
		found = append(found, PurgeLate.found("%d expired keys wait for purge, the oldest since %s", expired, when(oldestExpired)))
	}
	if longerThan(doubtLasts, doubtWait) {
		found = append(found, KeysInDoubt.found("%d keys are in doubt, the oldest since %s", inDoubt, when(oldestLease)))
	}
	return found, nil
}

func purgeJob(ctx context.Context, p *patient) ([]Finding, error) {
	var place string
	var database, schedule, status, message *string
	var active *bool
	var at *time.Time
	err := p.conn.QueryRow(ctx, `
		SELECT extension, database, schedule, active, last_status, last_message, last_run_at FROM guard.purge_job()`).
		Scan(&place, &database, &schedule, &active, &status, &message, &at)
	if err != nil {
		return nil, fmt.Errorf("look at pg_cron: %w", err)
	}
	switch place {
	case "elsewhere":
		return []Finding{PgCronElsewhere.found("pg_cron is in database %s", orUnknown(database))}, nil
	case "not_created":
		return []Finding{PgCronAbsent.found("pg_cron is loaded, and CREATE EXTENSION pg_cron has not run here")}, nil
	case "not_loaded":
		return []Finding{PgCronAbsent.found("pg_cron is not loaded by this server")}, nil
	}
	if schedule == nil {
		return []Finding{PurgeJobMissing.found("pg_cron has no job payonce-purge of the guard's owner")}, nil
	}
	var found []Finding
	if active == nil || !*active {
		found = append(found, PurgeJobInactive.found("job payonce-purge (%s) is not active", *schedule))
	}
	if status != nil && *status == "failed" {
		found = append(found, PurgeJobFailing.found("job payonce-purge failed at %s: %s", when(at), orUnknown(message)))
	}
	return found, nil
}

// backlogSQL gives, for each kind of work, how much waits, since when, and how
// many seconds that is by the database's clock.
const backlogSQL = `
SELECT w.number, w.since, extract(epoch FROM pg_catalog.clock_timestamp() - w.since)::pg_catalog.float8
  FROM payments.backlog() AS b
 CROSS JOIN LATERAL (VALUES
       (1, b.due_charges, b.oldest_due_charge), (2, b.due_refunds, b.oldest_due_refund),
       (3, b.undelivered, b.oldest_effect), (4, b.open_cases, b.oldest_case)) AS w (place, number, since)
 ORDER BY w.place`

func backlog(ctx context.Context, p *patient) ([]Finding, error) {
	kinds := []struct {
		code Code
		what string
		wait time.Duration
	}{
		{ChargesOverdue, "%d charges are due for an inquiry, the oldest since %s", dueWait},
		{RefundsOverdue, "%d refunds are due for an inquiry, the oldest since %s", dueWait},
		{OutboxBacklog, "%d effects wait in payments.outbox, the oldest since %s", dueWait},
		{CasesOpen, "%d cases are open, the oldest since %s", 0},
	}
	rows, err := p.conn.Query(ctx, backlogSQL)
	if err != nil {
		return nil, fmt.Errorf("count what waits: %w", err)
	}
	defer rows.Close()
	var found []Finding
	for i := 0; rows.Next() && i < len(kinds); i++ {
		var number int64
		var since *time.Time
		var waited *float64
		if err := rows.Scan(&number, &since, &waited); err != nil {
			return nil, fmt.Errorf("count what waits: %w", err)
		}
		if longerThan(waited, kinds[i].wait) {
			found = append(found, kinds[i].code.found(kinds[i].what, number, when(since)))
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("count what waits: %w", err)
	}
	return found, nil
}

// longerThan compares seconds that something has waited, nil for nothing.
func longerThan(waited *float64, limit time.Duration) bool {
	return waited != nil && *waited > limit.Seconds()
}

func when(at *time.Time) string {
	if at == nil {
		return "an unknown time"
	}
	return at.UTC().Format(time.RFC3339)
}

func orUnknown(text *string) string {
	if text == nil {
		return "unknown"
	}
	return *text
}
