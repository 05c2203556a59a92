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
// must find it.
type seededBug struct {
	name     string
	change   []replacement
	caughtBy []string
}

const (
	byInterleavings = "interleavings"
	byHistories     = "histories"
	byMachine       = "state machine"
)

// seededBugs is the table of docs/guarantees.md.
func seededBugs() []seededBug {
	return []seededBug{
		{
			"complete does not check the fence",
			[]replacement{{"complete", "AND k.fence = p_fence\n", "\n"}},
			[]string{byInterleavings, byHistories, byMachine},
		},
	}
}

// checkers return the first error that they find in a database with changes.
func checkers() map[string]func(context.Context, Target, []replacement) error {
	return map[string]func(context.Context, Target, []replacement) error{
		byInterleavings: findByInterleavings,
		byHistories:     findByHistories,
		byMachine:       findByMachine,
	}
}

func findByInterleavings(ctx context.Context, target Target, changes []replacement) error {
	copied, drop, err := target.cloneStepped(ctx, changes...)
	if err != nil {
		return fmt.Errorf("%w: %w", errSetup, err)
	}
	defer func() { _ = drop(ctx) }()
	w, err := newWorker(ctx, copied)
	if err != nil {
		return fmt.Errorf("%w: %w", errSetup, err)
	}
	defer w.close(ctx)
	programs := slices.Concat(basicPrograms(), longPrograms())
	for _, p := range slices.Concat(pairs(pgx.ReadCommitted, programs), pairs(pgx.RepeatableRead, programs)) {
		if err := w.explore(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// historiesToFind is more than enough: a bug that needs a race shows in the
// first few dozen.
const historiesToFind = 300

func findByHistories(ctx context.Context, target Target, changes []replacement) error {
	copied, drop, err := target.clone(ctx, changes...)
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

func findByMachine(ctx context.Context, target Target, changes []replacement) error {
	copied, drop, err := target.clone(ctx, changes...)
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
func TestScratchSeeds(t *testing.T) {
	target := newTarget(t)
	ctx := t.Context()
	bugs := scratchBugs()
	for _, b := range bugs {
		for name, f := range checkers() {
			err := f(ctx, target, b.change)
			require.NotErrorIs(t, err, errSetup)
			s := "MISSED"
			if err != nil {
				s = strings.ReplaceAll(err.Error(), "\n", " ")
				if len(s) > 220 {
					s = s[:220]
				}
			}
			t.Logf("%-40s %-14s %s", b.name, name, s)
		}
	}
}

func scratchBugs() []seededBug {
	r := func(name string, changes ...string) seededBug {
		return seededBug{name: name, change: []replacement{{changes[0], changes[1], changes[2]}}}
	}
	return []seededBug{
		r("complete without fence", "complete", "AND k.fence = p_fence\n", "\n"),
		r("complete twice", "complete", "AND k.fence = p_fence\n           AND k.completed_at IS NULL", "AND k.fence = p_fence"),
		r("holder_row without fence", "holder_row", "WHERE k.fence = p_fence\n       AND ", "WHERE "),
		r("lease >=", "claim", "v_row.lease_until > v_now", "v_row.lease_until >= v_now"),
		r("lease flipped", "claim", "v_row.lease_until > v_now", "v_row.lease_until < v_now"),
		r("expiry <", "claim", "v_row.expires_at <= v_now", "v_row.expires_at < v_now"),
		r("no re-read", "claim", "        IF FOUND THEN\n            v_result.recovered := false;\n            EXIT;\n        END IF;", "        v_result.recovered := false;\n v_fence := coalesce(v_fence, (extract(epoch FROM v_now) * 1000000)::bigint); EXIT;"),
		r("release without fence", "release", "AND k.fence = p_fence\n", "\n"),
		r("extend without fence", "hold", "AND k.fence = p_fence\n", "\n"),
		r("abandon without fence", "abandon", "AND k.fence = p_fence\n", "\n"),
		r("fence from 1", "claim", "(extract(epoch FROM v_now) * 1000000)::bigint", "1"),
		r("fence not incremented", "claim", "fence = k.fence + 1", "fence = k.fence"),
		r("purge running", "purge_batch", "AND k.lease_until <= v_now", ""),
		r("purge unexpired", "purge_batch", "AND k.expires_at <= v_now\n", "\n"),
		r("takeover without compare", "claim", "AND k.fence = v_row.fence\n                   AND k.lease_until = v_row.lease_until\n                   AND k.expires_at = v_row.expires_at\n                   AND (k.completed_at IS NULL) = (v_row.completed_at IS NULL)", ""),
		r("takeover compares fence only", "claim", "AND k.lease_until = v_row.lease_until\n                   AND k.expires_at = v_row.expires_at\n                   AND (k.completed_at IS NULL) = (v_row.completed_at IS NULL)", ""),
		r("conflict before mismatch", "claim", "IF v_row.request_hash <> p_request_hash OR v_row.request_path <> p_request_path THEN", "IF v_row.lease_until <= v_now AND (v_row.request_hash <> p_request_hash OR v_row.request_path <> p_request_path) THEN"),
		r("path not compared", "claim", "v_row.request_hash <> p_request_hash OR v_row.request_path <> p_request_path", "v_row.request_hash <> p_request_hash"),
		r("recovered forgotten", "claim", "v_result.recovered := v_row.completed_at IS NULL", "v_result.recovered := NOT v_expired"),
		r("expired held stolen", "claim", "v_row.expires_at <= v_now\n                    AND (v_row.completed_at IS NOT NULL OR v_row.lease_until <= v_now)", "v_row.expires_at <= v_now"),
	}
}
