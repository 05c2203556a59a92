package guardproof

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestHistories checks random concurrent histories for linearizability. In
// each isolation level the answers are those of one sequential guard.
func TestHistories(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			runHistories(t, newTarget(t), level, 150)
		})
	}
}

// TestStateMachine compares long random sequences of calls with the model, one
// by one.
func TestStateMachine(t *testing.T) {
	t.Parallel()
	calls := checkMachine(t.Context(), t, newTarget(t))
	t.Logf("%d calls, each answered as the model says", calls)
}
