package guardproof

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSeededBugsAreInTheGuarantees holds the table of docs/guarantees.md.
func TestSeededBugsAreInTheGuarantees(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guarantees.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| fault | in | found by |\n| --- | --- | --- |\n")
	require.True(t, found)
	var want strings.Builder
	for _, bug := range seededBugs() {
		fmt.Fprintf(&want, "| %s | %s | %s |\n", bug.name, bug.function, strings.Join(bug.caughtBy, ", "))
	}
	require.Equal(t, want.String(), table)
}
