package stripe

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdk "github.com/stripe/stripe-go/v82"

	"github.com/payonce/payonce/internal/psp"
)

// The table of docs/psp/stripe.md is the table of this package, and the page
// that each code comes from is linked.
func TestDocumentedCodes(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../../docs/psp/stripe.md")
	require.NoError(t, err)
	page := string(content)
	_, section, found := strings.Cut(page, "\n## Codes\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([a-z_]+) \\| ([a-z_]+) \\| (.+) \\|$")
	link := regexp.MustCompile(`\[[a-z ]+\]`)
	documented := map[string]verdicts{}
	for _, cells := range row.FindAllStringSubmatch(section, -1) {
		require.NotContains(t, documented, cells[1], "listed twice")
		documented[cells[1]] = verdicts{charge: named(t, cells[2]), refund: named(t, cells[3])}
		links := link.FindAllString(cells[4], -1)
		require.NotEmpty(t, links, "the page of %s", cells[1])
		for _, each := range links {
			require.Contains(t, page, "\n"+each+": https://docs.stripe.com/")
		}
	}
	require.Equal(t, codes, documented)
}

func named(t *testing.T, name string) psp.Verdict {
	t.Helper()
	for _, verdict := range []psp.Verdict{psp.InDoubt, psp.Pending, psp.Terminal, psp.Transient} {
		if verdict.String() == name {
			return verdict
		}
	}
	require.Fail(t, "no verdict", name)
	return psp.InDoubt
}

// Every type of error that Stripe's SDK knows stands in the table.
func TestEveryErrorType(t *testing.T) {
	t.Parallel()
	for _, kind := range []sdk.ErrorType{
		sdk.ErrorTypeAPI, sdk.ErrorTypeCard, sdk.ErrorTypeIdempotency, sdk.ErrorTypeInvalidRequest,
	} {
		require.Contains(t, codes, string(kind))
	}
}

func TestClassified(t *testing.T) {
	t.Parallel()
	failure := func(status int, kind sdk.ErrorType, code sdk.ErrorCode, decline sdk.DeclineCode) *sdk.Error {
		return &sdk.Error{HTTPStatusCode: status, Type: kind, Code: code, DeclineCode: decline, Msg: "told"}
	}
	for _, test := range []struct {
		op      operation
		problem *sdk.Error
		verdict psp.Verdict
		code    string
	}{
		{charging, failure(402, sdk.ErrorTypeCard, sdk.ErrorCodeCardDeclined, sdk.DeclineCodeLostCard), psp.Terminal, "lost_card"},
		{charging, failure(402, sdk.ErrorTypeCard, sdk.ErrorCodeExpiredCard, ""), psp.Terminal, "expired_card"},
		{charging, failure(402, sdk.ErrorTypeCard, "", ""), psp.Terminal, "card_error"},
		{charging, failure(402, sdk.ErrorTypeCard, "card_declined", "something_new"), psp.Terminal, "something_new"},
		{charging, failure(400, sdk.ErrorTypeInvalidRequest, "something_new", ""), psp.InDoubt, "something_new"},
		{charging, failure(400, "something_new", "", ""), psp.InDoubt, "something_new"},
		{charging, failure(400, sdk.ErrorTypeInvalidRequest, "", ""), psp.Terminal, "invalid_request_error"},
		{charging, failure(400, sdk.ErrorTypeIdempotency, "", ""), psp.Terminal, "idempotency_error"},
		{charging, failure(409, sdk.ErrorTypeInvalidRequest, sdk.ErrorCodeIdempotencyKeyInUse, ""), psp.InDoubt, "idempotency_key_in_use"},
		{charging, failure(429, sdk.ErrorTypeInvalidRequest, sdk.ErrorCodeLockTimeout, ""), psp.InDoubt, "lock_timeout"},
		{charging, failure(429, sdk.ErrorTypeInvalidRequest, sdk.ErrorCodeRateLimit, ""), psp.Transient, "rate_limit"},
		{charging, failure(429, sdk.ErrorTypeInvalidRequest, "", ""), psp.Transient, "invalid_request_error"},
		{charging, failure(401, sdk.ErrorTypeInvalidRequest, "", ""), psp.Transient, "invalid_request_error"},
		{charging, failure(403, sdk.ErrorTypeInvalidRequest, "", ""), psp.Transient, "invalid_request_error"},
		{charging, failure(500, sdk.ErrorTypeAPI, "", ""), psp.InDoubt, "api_error"},
		{charging, failure(500, sdk.ErrorTypeCard, sdk.ErrorCodeCardDeclined, ""), psp.InDoubt, "card_declined"},
		{charging, failure(502, "", "", ""), psp.InDoubt, ""},
		{charging, failure(400, sdk.ErrorTypeInvalidRequest, sdk.ErrorCodeChargeAlreadyRefunded, ""), psp.InDoubt, "charge_already_refunded"},
		{refunding, failure(400, sdk.ErrorTypeInvalidRequest, sdk.ErrorCodeChargeAlreadyRefunded, ""), psp.Terminal, "charge_already_refunded"},
		{refunding, failure(400, sdk.ErrorTypeInvalidRequest, "something_new", ""), psp.InDoubt, "something_new"},
		{refunding, failure(401, sdk.ErrorTypeInvalidRequest, "", ""), psp.Transient, "invalid_request_error"},
		{asking, failure(401, sdk.ErrorTypeInvalidRequest, "", ""), psp.InDoubt, "invalid_request_error"},
		{asking, failure(404, sdk.ErrorTypeInvalidRequest, sdk.ErrorCodeResourceMissing, ""), psp.InDoubt, "resource_missing"},
	} {
		t.Run(fmt.Sprintf("%d %d %s", test.op, test.problem.HTTPStatusCode, test.code), func(t *testing.T) {
			t.Parallel()
			result := failed(test.op, fmt.Errorf("call: %w", test.problem))
			require.Equal(t, test.verdict, result.Verdict)
			require.Equal(t, test.code, result.Code)
		})
	}
	require.Equal(t, psp.Transient, failed(charging, fmt.Errorf("dial: %w", psp.ErrUnsent)).Verdict)
	require.Equal(t, psp.InDoubt, failed(asking, fmt.Errorf("dial: %w", psp.ErrUnsent)).Verdict)
	require.Equal(t, psp.InDoubt, failed(charging, http.ErrHandlerTimeout).Verdict)
}
