package httpapi

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/proxy"
)

// outcomesInSQL collects every outcome that a function in a folder of sql/ assigns or
// lets through from the guard.
func outcomesInSQL(t *testing.T, folder string) []guard.Outcome {
	t.Helper()
	assigned := regexp.MustCompile(`outcome := '([a-z_]+)'`)
	paths, err := filepath.Glob("../../sql/" + folder + "/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	found := map[guard.Outcome]bool{}
	for _, path := range paths {
		if strings.HasPrefix(filepath.Base(path), "operator_") {
			continue // told to a person, in no answer to a request
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, match := range assigned.FindAllStringSubmatch(string(text), -1) {
			outcome := guard.Outcome(match[1])
			if folder == "guard" || !slices.Contains(guard.Outcomes(), outcome) {
				found[outcome] = true
			}
		}
	}
	var outcomes []guard.Outcome
	for outcome := range found {
		outcomes = append(outcomes, outcome)
	}
	slices.Sort(outcomes)
	return outcomes
}

func sorted(outcomes []guard.Outcome) []guard.Outcome {
	slices.Sort(outcomes)
	return outcomes
}

func TestEverySQLOutcomeHasItsConstant(t *testing.T) {
	t.Parallel()
	require.Equal(t, sorted(guard.Outcomes()), outcomesInSQL(t, "guard"))
	require.Equal(t, sorted(payments.SQLOutcomes()), outcomesInSQL(t, "payments"))
}

func TestEveryOutcomeHasItsAnswer(t *testing.T) {
	t.Parallel()
	// Answered by the stored response, or never leaving package payments.
	noRow := []guard.Outcome{guard.Claimed, guard.Completed, guard.Replay, "superseded"}
	expected := append(guard.Outcomes(), payments.SQLOutcomes()...)
	expected = append(expected, payments.Released, payments.Rejected, payments.LeftInDoubt)
	for _, outcome := range expected {
		_, ok := answers[outcome]
		require.Equal(t, !slices.Contains(noRow, outcome), ok, outcome)
	}
	require.Len(t, answers, len(expected)-len(noRow))
}

func TestEveryProblemIsExplained(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/problems.md")
	require.NoError(t, err)
	kinds := append(httpguard.Kinds(), unauthorized, fieldInvalid, declined, refundDeclined, notificationInvalid,
		notificationFailed)
	kinds = append(kinds, proxy.Kinds()...)
	for _, kind := range answers {
		kinds = append(kinds, kind)
	}
	codes := map[string]bool{}
	for _, kind := range kinds {
		codes[kind.Code()] = true
		require.Contains(t, string(text), "\n## "+kind.Code()+"\n", "docs/problems.md")
	}
	require.Equal(t, len(codes), strings.Count(string(text), "\n## "), "docs/problems.md explains what does not exist")
}
