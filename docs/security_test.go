package docs_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var threat = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)

// Each threat of SECURITY.md names the tests that hold it, and they are there.
func TestThreatsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../SECURITY.md")
	require.NoError(t, err)
	there := inTree(t).tests
	threats := 0
	for _, row := range threat.FindAllStringSubmatch(string(text), -1) {
		if row[1] == "threat" || row[1] == "---" {
			continue
		}
		threats++
		tests := testName.FindAllStringSubmatch(row[3], -1)
		require.NotEmpty(t, tests, "%s: no test holds it", row[1])
		for _, test := range tests {
			require.True(t, there[test[1]], "%s: there is no %s", row[1], test[1])
		}
	}
	require.GreaterOrEqual(t, threats, 20)
}
