package guardproof

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// seededBug is a fault put into the text of a function, and the checkers that
// find it every time. Some bugs need a race, some a moment to the microsecond,
// some an isolation level.
type seededBug struct {
	name     string
	function string
	old, new string
	caughtBy []string
}

const (
	byInterleavings = "interleavings"
	byHistories     = "histories"
	byMachine       = "state machine"
	byDifferentKeys = "different keys"
)

var (
	byAll      = []string{byInterleavings, byHistories, byMachine}
	byRace     = []string{byInterleavings, byHistories}
	bySchedule = []string{byInterleavings}
	byOverlap  = []string{byDifferentKeys}
)

// The texts that several bugs change.
const (
	holderCheck   = "AND k.fence = p_fence\n           AND k.completed_at IS NULL"
	leaseRuns     = "v_row.lease_until > v_now"
	requestEquals = "v_row.request_hash <> p_request_hash OR v_row.request_path <> p_request_path"
	newFence      = "(extract(epoch FROM v_now) * 1000000)::bigint"
	unchangedRow  = `AND k.fence = v_row.fence
                   AND k.lease_until = v_row.lease_until
                   AND k.expires_at = v_row.expires_at
                   AND (k.completed_at IS NULL) = (v_row.completed_at IS NULL)`
	whetherInserted = `        IF FOUND THEN
            v_result.recovered := false;
            EXIT;
        END IF;
`
	aboveReadCommitted = "current_setting('transaction_isolation') IN ('repeatable read', 'serializable')"
)

func seededBugs() []seededBug {
	return []seededBug{
		{"complete does not check the fence", "complete", holderCheck, "AND k.completed_at IS NULL", byAll},
		{"complete overwrites a response", "complete", holderCheck, "AND k.fence = p_fence", byAll},
		{
			"complete does not check the fence above READ COMMITTED", "holder_row",
			"WHERE k.fence = p_fence\n       AND ", "WHERE ", bySchedule,
		},
		{"claim: lease_until > now became >=", "claim", leaseRuns, "v_row.lease_until >= v_now", bySchedule},
		{"claim: lease_until > now became <", "claim", leaseRuns, "v_row.lease_until < v_now", byAll},
		{
			"claim: expires_at <= now became <", "claim",
			"v_row.expires_at <= v_now", "v_row.expires_at < v_now", bySchedule,
		},
		{
			"claim inserts first and does not look again", "claim", whetherInserted,
			"v_result.recovered := false; v_fence := coalesce(v_fence, " + newFence + "); EXIT;\n", byRace,
		},
		{"claim takes over without comparing", "claim", unchangedRow, "", byRace},
		{
			"claim compares nothing but the fence when it takes over", "claim",
			unchangedRow, "AND k.fence = v_row.fence", byRace,
		},
		{
			"claim takes over a running claim past its life", "claim",
			"AND (v_row.completed_at IS NOT NULL OR v_row.lease_until <= v_now)", "", byAll,
		},
		{
			"claim forgets that work past its life is in doubt", "claim",
			"v_result.recovered := v_row.completed_at IS NULL", "v_result.recovered := NOT v_expired", byAll,
		},
		{
			"claim looks at conflict before mismatch", "claim",
			"IF " + requestEquals, "IF v_row.lease_until <= v_now AND (" + requestEquals + ")", byAll,
		},
		{"claim does not compare the path", "claim", requestEquals, "v_row.request_hash <> p_request_hash", byAll},
		{"the fence starts at 1 after a release", "claim", newFence, "1", byAll},
		{"a takeover keeps the fence", "claim", "fence = k.fence + 1", "fence = k.fence", byAll},
		{"release ignores the fence", "release", holderCheck, "AND k.completed_at IS NULL", byAll},
		{"abandon ignores the fence", "abandon", holderCheck, "AND k.completed_at IS NULL", byAll},
		{"extend ignores the fence", "hold", "AND k.fence = p_fence\n", "\n", byAll},
		{"purge deletes running claims", "purge_batch", "AND k.lease_until <= v_now", "", byAll},
		{"purge deletes keys that live", "purge_batch", "AND k.expires_at <= v_now\n", "\n", byAll},
		{"complete reads through the index above READ COMMITTED", "complete", aboveReadCommitted, "false", byOverlap},
		{
			"claim looks before it inserts under SERIALIZABLE", "claim",
			"current_setting('transaction_isolation') <> 'serializable'", "true", byOverlap,
		},
	}
}

// TestSeededBugs proves that the checkers can fail.
func TestSeededBugs(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	run := checkers()
	for _, bug := range seededBugs() {
		for _, checker := range bug.caughtBy {
			t.Run(bug.name+", "+checker, func(t *testing.T) {
				t.Parallel()
				err := run[checker](t.Context(), target, replacement{bug.function, bug.old, bug.new})
				require.NotErrorIs(t, err, errSetup)
				require.Error(t, err, "not caught")
				t.Logf("%.300s", strings.ReplaceAll(err.Error(), "\n", " "))
			})
		}
	}
}

// checkers return the first error that they find in a database with changes.
func checkers() map[string]func(context.Context, Target, replacement) error {
	return map[string]func(context.Context, Target, replacement) error{
		byInterleavings: findByInterleavings,
		byHistories:     findByHistories,
		byMachine:       findByMachine,
		byDifferentKeys: findByDifferentKeys,
	}
}

func findByInterleavings(ctx context.Context, target Target, bug replacement) error {
	copied, drop, err := target.cloneStepped(ctx, bug)
	if err != nil {
		return fmt.Errorf("%w: %w", errSetup, err)
	}
	defer func() { _ = drop(ctx) }()
	w, err := newWorker(ctx, copied)
	if err != nil {
		return fmt.Errorf("%w: %w", errSetup, err)
	}
	defer w.close(ctx)
	level := pgx.ReadCommitted
	if bug.function == "holder_row" {
		level = pgx.RepeatableRead
	}
	for _, p := range pairs(level, slices.Concat(basicPrograms(), longPrograms())) {
		if err := w.explore(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// historiesToFind is more than enough: a bug that needs a race shows in the
// first few dozen.
const historiesToFind = 300

func findByHistories(ctx context.Context, target Target, bug replacement) error {
	copied, drop, err := target.clone(ctx, bug)
	if err != nil {
		return fmt.Errorf("%w: %w", errSetup, err)
	}
	defer func() { _ = drop(ctx) }()
	h, err := newHistorian(ctx, copied, historySize{sessions: 5, transactions: 14, keys: 3})
	if err != nil {
		return fmt.Errorf("%w: %w", errSetup, err)
	}
	defer h.close(ctx)
	for seed := range uint64(historiesToFind) {
		if _, err := h.record(ctx, seed, pgx.ReadCommitted); err != nil {
			return err
		}
	}
	return nil
}

func findByDifferentKeys(ctx context.Context, target Target, bug replacement) error {
	copied, drop, err := target.clone(ctx, bug)
	if err != nil {
		return fmt.Errorf("%w: %w", errSetup, err)
	}
	defer func() { _ = drop(ctx) }()
	o, err := newOverlap(ctx, copied, pgx.Serializable)
	if err != nil {
		return fmt.Errorf("%w: %w", errSetup, err)
	}
	defer o.close(ctx)
	return o.exploreAll(ctx)
}

func findByMachine(ctx context.Context, target Target, bug replacement) error {
	copied, drop, err := target.clone(ctx, bug)
	if err != nil {
		return fmt.Errorf("%w: %w", errSetup, err)
	}
	defer func() { _ = drop(ctx) }()
	v := &verdict{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		checkMachine(ctx, v, copied)
	}()
	<-done
	return v.err
}

// errSetup marks what is no finding.
var errSetup = errors.New("set up the database")

// verdict stands in for a test when a checker is to fail: it keeps the words.
type verdict struct {
	rapid.TB
	err error
}

func (v *verdict) Name() string        { return "seeded bug" }
func (v *verdict) Helper()             {}
func (v *verdict) Failed() bool        { return v.err != nil }
func (v *verdict) Logf(string, ...any) {}
func (v *verdict) Log(...any)          {}
func (v *verdict) FailNow()            { runtime.Goexit() }

func (v *verdict) Errorf(format string, arguments ...any) {
	v.err = fmt.Errorf(format, arguments...) //nolint:err113 // the checker's own words
}

func (v *verdict) Fatalf(format string, arguments ...any) {
	v.Errorf(format, arguments...)
	v.FailNow()
}
