package wechat

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
)

func documentedSection(t *testing.T, title string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/psp/wechat.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "\n## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// The table of docs/psp/wechat.md is the table of this package, and the page
// that each code comes from is linked.
func TestDocumentedCodes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/psp/wechat.md")
	require.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\d{3}(?:, \\d{3})?) \\| ([a-z_]+) \\| ([a-z_]+) \\| (.+) \\|$")
	link := regexp.MustCompile(`\[[a-z0-9 ]+\]`)
	documented := map[string]verdicts{}
	for _, cells := range row.FindAllStringSubmatch(documentedSection(t, "Codes"), -1) {
		require.NotContains(t, documented, cells[1], "listed twice")
		documented[cells[1]] = verdicts{charge: named(t, cells[3]), refund: named(t, cells[4])}
		links := link.FindAllString(cells[5], -1)
		require.NotEmpty(t, links, "the page of %s", cells[1])
		for _, each := range links {
			require.Contains(t, string(page), "\n"+each+": https://pay.weixin.qq.com/")
		}
	}
	require.Equal(t, codes, documented)
	require.GreaterOrEqual(t, len(codes), 20)
}

func named(t *testing.T, name string) psp.Verdict {
	t.Helper()
	for _, verdict := range []psp.Verdict{psp.InDoubt, psp.Succeeded, psp.Pending, psp.Terminal, psp.Transient} {
		if verdict.String() == name {
			return verdict
		}
	}
	require.Fail(t, "no verdict", name)
	return psp.InDoubt
}

func TestDocumentedStates(t *testing.T) {
	t.Parallel()
	charges, refunds, found := strings.Cut(documentedSection(t, "States"), "| `status` of a refund |")
	require.True(t, found)
	row := regexp.MustCompile("(?m)^\\| ((?:`[A-Z]+`(?:, )?)+) \\| ([a-z_]+)")
	state := regexp.MustCompile("[A-Z]+")
	for section, states := range map[string]map[string]psp.Verdict{charges: tradeStates, refunds: refundStates} {
		documented := map[string]psp.Verdict{}
		for _, cells := range row.FindAllStringSubmatch(section, -1) {
			for _, each := range state.FindAllString(cells[1], -1) {
				documented[each] = named(t, cells[2])
			}
		}
		require.Equal(t, states, documented)
	}
}

func TestClassified(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		op      operation
		status  int
		code    string
		verdict psp.Verdict
	}{
		{charging, http.StatusBadRequest, "SOMETHING_NEW", psp.InDoubt},
		{charging, http.StatusBadRequest, "", psp.InDoubt},
		{charging, http.StatusTooManyRequests, "", psp.InDoubt},
		{charging, http.StatusBadGateway, "", psp.InDoubt},
		{charging, http.StatusInternalServerError, "SYSTEM_ERROR", psp.InDoubt},
		{charging, http.StatusAccepted, "USERPAYING", psp.Pending},
		{charging, http.StatusUnauthorized, "SIGN_ERROR", psp.Transient},
		{charging, http.StatusUnauthorized, "SOMETHING_NEW", psp.Transient},
		{refunding, http.StatusUnauthorized, "", psp.Transient},
		{refunding, http.StatusNotFound, codeResourceNotExists, psp.Terminal},
		{refunding, http.StatusBadRequest, "SOMETHING_NEW", psp.InDoubt},
		{charging, http.StatusNotFound, codeResourceNotExists, psp.InDoubt},
		{charging, http.StatusNotFound, codeOrderNotExist, psp.InDoubt},
		{askingOrder, http.StatusNotFound, codeOrderNotExist, psp.NotFound},
		{askingOrder, http.StatusNotFound, codeOrderNotExistOld, psp.NotFound},
		{askingOrder, http.StatusBadRequest, codeOrderNotExist, psp.InDoubt},
		{askingOrder, http.StatusNotFound, codeResourceNotExists, psp.InDoubt},
		{askingRefund, http.StatusNotFound, codeResourceNotExists, psp.NotFound},
		{askingRefund, http.StatusNotFound, codeOrderNotExist, psp.InDoubt},
		{askingRefund, http.StatusInternalServerError, codeResourceNotExists, psp.InDoubt},
		{askingOrder, http.StatusUnauthorized, "SIGN_ERROR", psp.InDoubt},
		{askingOrder, http.StatusBadRequest, "PARAM_ERROR", psp.InDoubt},
	} {
		t.Run(fmt.Sprintf("%d %d %s", test.op, test.status, test.code), func(t *testing.T) {
			t.Parallel()
			result := classified(test.op, refusal{status: test.status, code: test.code})
			require.Equal(t, test.verdict, result.Verdict)
			require.Equal(t, test.code, result.Code)
		})
	}
}
