package guardproof

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// TestInterleavings plays every order of the steps of two and of three
// sessions, and asks the model to explain each outcome and each remaining row.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	for name, plans := range map[string][]plan{
		"two sessions, read committed":  pairs(pgx.ReadCommitted, slices.Concat(basicPrograms(), longPrograms())),
		"two sessions, repeatable read": pairs(pgx.RepeatableRead, basicPrograms()),
		"two sessions, serializable":    pairs(pgx.Serializable, basicPrograms()),
		"three sessions":                triples(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explored, err := interleave(t.Context(), newTarget(t), plans, 3)
			require.NoError(t, err)
			require.Greater(t, explored, len(plans))
			t.Logf("%d interleavings of %d plans, all explained", explored, len(plans))
		})
	}
}
