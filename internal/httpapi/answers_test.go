package httpapi

import (
	"fmt"
	"io/fs"
	"maps"
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

// apiProblems lists every problem that the payment API answers with.
func apiProblems() []httpguard.Kind {
	kinds := append(httpguard.Kinds(), unauthorized, fieldInvalid, declined, refundDeclined, notificationInvalid,
		notificationFailed)
	for _, kind := range answers {
		kinds = append(kinds, kind)
	}
	return kinds
}

// problems are those of the API and of the proxy.
func problems() []httpguard.Kind { return append(apiProblems(), proxy.Kinds()...) }

// A problem's type is a link into docs/problems.md. The page has one section for
// each code, which begins with the statuses and what may be done, and no others.
func TestEveryProblemIsExplained(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/problems.md")
	require.NoError(t, err)
	statuses, retry := map[string][]int{}, map[string]httpguard.Retry{}
	for _, kind := range problems() {
		code, problem := kind.Code(), kind.Problem()
		require.Equal(t, "https://github.com/payonce/payonce/blob/main/docs/problems.md#"+code, problem.Type)
		require.Contains(t, []httpguard.Retry{"", problem.Retry}, retry[code], "%s has two answers to retry", code)
		retry[code] = problem.Retry
		if !slices.Contains(statuses[code], problem.Status) {
			statuses[code] = append(statuses[code], problem.Status)
		}
	}
	var explained []string
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		code, text, _ := strings.Cut(section, "\n\n")
		// Of such a heading the anchor is the heading itself.
		require.Regexp(t, "^[a-z][a-z_]*$", code)
		require.NotContains(t, explained, code, "the second section's anchor has a number")
		require.Contains(t, retry, code, "nothing answers with it")
		explained = append(explained, code)
		slices.Sort(statuses[code])
		list := strings.Trim(strings.ReplaceAll(fmt.Sprint(statuses[code]), " ", ", "), "[]")
		first, explanation, _ := strings.Cut(text, "\n\n")
		require.Equal(t, fmt.Sprintf("Status %s, retry `%s`.", list, retry[code]), first, code)
		require.NotEmpty(t, strings.TrimSpace(explanation), code)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(retry)), explained)
}

// The lists that the tests go by are those of the code: each call of NewKind
// anywhere is in problems.
func TestEveryProblemOfTheCodeIsListed(t *testing.T) {
	t.Parallel()
	made := 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		made += strings.Count(string(text), "NewKind(") - strings.Count(string(text), "func NewKind(")
		return err
	}))
	distinct := map[httpguard.Kind]bool{}
	for _, kind := range problems() {
		distinct[kind] = true
	}
	require.Len(t, distinct, made)
}
