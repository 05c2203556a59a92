package twoctwop_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/twoctwop"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*psp.ChargeRequest)
		field  string
	}{
		"fine":               {func(*psp.ChargeRequest) {}, ""},
		"50 characters":      {func(r *psp.ChargeRequest) { r.OrderID = strings.Repeat("o", 50) }, ""},
		"51 characters":      {func(r *psp.ChargeRequest) { r.OrderID = strings.Repeat("o", 51) }, "order_id"},
		"no order id":        {func(r *psp.ChargeRequest) { r.OrderID = "" }, "order_id"},
		"a hyphen":           {func(r *psp.ChargeRequest) { r.OrderID = "order-1" }, "order_id"},
		"an underscore":      {func(r *psp.ChargeRequest) { r.OrderID = "order_1" }, "order_id"},
		"largest amount":     {func(r *psp.ChargeRequest) { r.Money = sgd(99_999_999_999_999) }, ""},
		"above it":           {func(r *psp.ChargeRequest) { r.Money = sgd(100_000_000_000_000) }, "amount"},
		"zero":               {func(r *psp.ChargeRequest) { r.Money = sgd(0) }, "amount"},
		"no currency":        {func(r *psp.ChargeRequest) { r.Money.Currency = "702" }, "currency"},
		"yen":                {func(r *psp.ChargeRequest) { r.Money = money.Money{Amount: 1, Currency: "JPY"} }, ""},
		"250 characters":     {func(r *psp.ChargeRequest) { r.Subject = strings.Repeat("茶", 250) }, ""},
		"251 characters":     {func(r *psp.ChargeRequest) { r.Subject = strings.Repeat("茶", 251) }, "subject"},
		"251 once escaped":   {func(r *psp.ChargeRequest) { r.Subject = strings.Repeat("t", 247) + "<" }, "subject"},
		"unknown field":      {func(r *psp.ChargeRequest) { r.Fields = map[string]string{"colour": "red"} }, "colour"},
		"a field too long":   {func(r *psp.ChargeRequest) { r.Fields = map[string]string{"locale": "abcdefghijk"} }, "locale"},
		"a payment channel":  {func(r *psp.ChargeRequest) { r.Method = "PPQR" }, ""},
		"no payment channel": {func(r *psp.ChargeRequest) { r.Method = "credit card" }, "method"},
		"a page to return to": {func(r *psp.ChargeRequest) {
			r.Fields = map[string]string{"frontendReturnUrl": "https://shop.example/done", "locale": "th"}
		}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider, simulator, _ := setup(t, nil)
			request := order("order1", 1000)
			test.change(&request)
			err := provider.Validate(request)
			if test.field == "" {
				require.NoError(t, err)
				require.Equal(t, psp.Pending, provider.Charge(t.Context(), request).Verdict, "the simulator agrees")
				return
			}
			var refused *psp.FieldError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, test.field, refused.Field)
			require.Equal(t, psp.Terminal, provider.Charge(t.Context(), request).Verdict)
			require.Empty(t, simulator.Requests(), "it is not even sent")
		})
	}
}

func TestChargeIsAPageToPayOn(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, func(_ *twoctwop.Config, o *pspsim.Options) { o.ManualBuyer = true })
	first := provider.Charge(t.Context(), order("order1", 1000))
	require.Equal(t, psp.Pending, first.Verdict, "%+v", first)
	require.Contains(t, first.Next["payment_url"], first.Next["payment_token"])
	require.Equal(t, first, provider.Charge(t.Context(), order("order1", 1000)), "a retry gets the same page")
	require.Empty(t, simulator.Ledger())
	require.Equal(t, psp.NotFound, provider.Query(t.Context(), trade("order1", 1000)).Verdict, "nobody has begun to pay")
}

// Amounts go out and come back to the last minor unit.
func TestAmounts(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	for i, amount := range []money.Money{
		{Amount: 1, Currency: "SGD"}, {Amount: 99_999_999_999_999, Currency: "THB"}, {Amount: 1050, Currency: "MYR"},
		{Amount: 1, Currency: "JPY"}, {Amount: 999_999_999_999, Currency: "VND"}, {Amount: 1, Currency: "KWD"},
		{Amount: 999_999_999_999_999, Currency: "BHD"}, {Amount: 1500, Currency: "IDR"}, {Amount: 10, Currency: "HKD"},
	} {
		id := fmt.Sprintf("order%d", i)
		request := psp.ChargeRequest{OrderID: id, Attempt: 1, Money: amount}
		require.NoError(t, provider.Validate(request))
		require.Equal(t, psp.Pending, provider.Charge(t.Context(), request).Verdict, "%+v", amount)
		entry := simulator.Ledger()[i]
		require.Equal(t, amount, money.Money{Amount: entry.Amount, Currency: entry.Currency})
		told := provider.Query(t.Context(), psp.Trade{OrderID: id, Money: amount})
		require.Equal(t, psp.Succeeded, told.Verdict)
		require.Equal(t, amount, told.Paid)
		require.NotEmpty(t, told.TradeNo)
	}
}

func TestAmountsOfAnswers(t *testing.T) {
	t.Parallel()
	for told, verdict := range map[string]psp.Verdict{
		`10.00`: psp.Succeeded, `10`: psp.Succeeded, `"10.00000"`: psp.Succeeded, `"000000000010.00000"`: psp.Succeeded,
		`10.001`: psp.InDoubt, `1e1`: psp.InDoubt, `-10.00`: psp.InDoubt, `0.00`: psp.InDoubt, `null`: psp.InDoubt,
		`""`: psp.InDoubt, `"ten"`: psp.InDoubt, `true`: psp.InDoubt, `1000000000000`: psp.InDoubt,
	} {
		provider := speaking(t, func(string) string {
			return signed(t, `{"merchantID":"JT01","invoiceNo":"order1","respCode":"0000","currencyCode":"SGD","amount":`+told+`}`)
		})
		result := provider.Query(t.Context(), trade("order1", 1000))
		require.Equal(t, verdict, result.Verdict, told)
		if verdict == psp.Succeeded {
			require.Equal(t, sgd(1000), result.Paid)
		}
	}
}

// A duplicate is looked up: paid, it is the success that it is.
func TestPaidAlready(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	provider.Charge(t.Context(), order("order1", 1000))
	second := order("order1", 1000)
	second.Attempt = 2
	told := provider.Charge(t.Context(), second)
	require.Equal(t, psp.Succeeded, told.Verdict)
	require.Equal(t, sgd(1000), told.Paid)
	other := provider.Charge(t.Context(), order("order1", 1001))
	require.Equal(t, psp.Succeeded, other.Verdict)
	require.Equal(t, sgd(1000), other.Paid, "for the caller to compare")
	require.Len(t, simulator.Ledger(), 1)
}

func TestTakenNumber(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, func(_ *twoctwop.Config, o *pspsim.Options) { o.ManualBuyer = true })
	provider.Charge(t.Context(), order("order1", 1000))
	other := provider.Charge(t.Context(), order("order1", 1001))
	require.Equal(t, psp.Terminal, other.Verdict)
	require.Equal(t, "9015", other.Code)
	require.Empty(t, simulator.Ledger())
}

func TestDuplicatesFollowFromTheInquiry(t *testing.T) {
	t.Parallel()
	for _, duplicate := range []string{"9015", "5005"} {
		for inquiry, verdict := range map[string]psp.Verdict{
			"0000": psp.Succeeded, "2001": psp.Pending, "4005": psp.Terminal, "2002": psp.Terminal, "2003": psp.InDoubt, "0999": psp.InDoubt,
		} {
			provider := speaking(t, func(path string) string {
				if strings.HasSuffix(path, "/paymentToken") {
					return signed(t, `{"respCode":"`+duplicate+`","respDesc":"Existing Invoice Number"}`)
				}
				return signed(t, `{"merchantID":"JT01","invoiceNo":"order1","amount":"10.00","currencyCode":"SGD","respCode":"`+inquiry+`"}`)
			})
			require.Equal(t, verdict, provider.Charge(t.Context(), order("order1", 1000)).Verdict, inquiry)
		}
	}
}

func TestFaultsAreJudgedByTheMoney(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fault  string
		charge psp.Verdict
		moved  int
	}{
		{"error_before", psp.InDoubt, 0},
		{"error_after", psp.InDoubt, 1},
		{"drop_after", psp.InDoubt, 1},
		{"decline", psp.Terminal, 0},
		{"delay", psp.Pending, 1},
	}
	for _, test := range tests {
		t.Run(test.fault, func(t *testing.T) {
			t.Parallel()
			provider, simulator, _ := setup(t, nil)
			require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "2c2p", Op: "charge", Fault: test.fault, DelayMS: 1}))
			require.Equal(t, test.charge, provider.Charge(t.Context(), order("order1", 1000)).Verdict)
			require.Len(t, simulator.Ledger(), test.moved)
			asked := provider.Query(t.Context(), trade("order1", 1000))
			if test.moved == 0 {
				require.Equal(t, psp.NotFound, asked.Verdict)
			} else {
				require.Equal(t, psp.Succeeded, asked.Verdict)
			}
			require.Equal(t, psp.Pending, provider.Charge(t.Context(), order("order1", 1000)).Verdict)
			require.Len(t, simulator.Ledger(), 1, "a retry is the same payment")
		})
	}
}

func TestQueryFaultsLeaveItInDoubt(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"error_before", "error_after", "drop_after"} {
		provider, simulator, _ := setup(t, nil)
		require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "2c2p", Op: "query", Fault: fault}))
		require.Equal(t, psp.InDoubt, provider.Query(t.Context(), trade("order1", 1000)).Verdict, fault)
	}
}

// A refused query says nothing about the payment, whatever the code means for
// a charge.
func TestRefusedQueryIsInDoubt(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"9007", "9042", "9004", "9059", "0999", "7777", ""} {
		for _, answer := range []string{signed(t, `{"respCode":"`+code+`"}`), `{"respCode":"` + code + `"}`} {
			provider := speaking(t, func(string) string { return answer })
			require.Equal(t, psp.InDoubt, provider.Query(t.Context(), trade("order1", 1000)).Verdict, answer)
		}
	}
}

func TestTimeoutIsInDoubt(t *testing.T) {
	t.Parallel()
	provider, simulator, _ := setup(t, nil)
	require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "2c2p", Op: "charge", Fault: "delay", DelayMS: 60_000}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	result := provider.Charge(ctx, order("order1", 1000))
	require.Equal(t, psp.InDoubt, result.Verdict)
	require.ErrorIs(t, result.Err, context.DeadlineExceeded)
}

func TestNeverSentIsTransient(t *testing.T) {
	t.Parallel()
	provider, _, server := setup(t, nil)
	server.Close()
	result := provider.Charge(t.Context(), order("order1", 1000))
	require.Equal(t, psp.Transient, result.Verdict)
	require.ErrorIs(t, result.Err, psp.ErrUnsent)
	require.Equal(t, psp.Transient, provider.Refund(t.Context(), refundOf("r1", 1)).Verdict)
	require.Equal(t, psp.InDoubt, provider.Query(t.Context(), trade("order1", 1000)).Verdict,
		"a query that was never sent tells nothing about the money")
	require.Equal(t, psp.InDoubt, provider.QueryRefund(t.Context(), refundOf("r1", 1)).Verdict)
}

func TestUnbelievedAnswersAreInDoubt(t *testing.T) {
	t.Parallel()
	other, err := otherKeys()
	require.NoError(t, err)
	for _, body := range []string{
		strings.Replace(signed(t, `{"respCode":"9059"}`), `"}`, `x"}`, 1),
		signedBy(t, `{"respCode":"0000","webPaymentUrl":"https://evil.example"}`, other.TwoCTwoPSecretKey),
		`{"respCode":"0000","webPaymentUrl":"https://evil.example"}`, `{"respCode":"9059"}`, `{"respCode":"7777"}`,
		signed(t, `{"respCode":"7777"}`), signed(t, `{"respCode":"0000"}`), signed(t, `{}`),
		`{"payload":""}`, `{"payload":"eyJhbGciOiJub25lIn0.eyJyZXNwQ29kZSI6IjAwMDAifQ."}`, `{}`, ``, `<html>502 Bad Gateway</html>`,
	} {
		provider := speaking(t, func(string) string { return body })
		require.Equal(t, psp.InDoubt, provider.Charge(t.Context(), order("order1", 1000)).Verdict, body)
	}
}

// An inquiry is only believed about the invoice that was asked about.
func TestAnotherInvoiceIsInDoubt(t *testing.T) {
	t.Parallel()
	for claims, verdict := range map[string]psp.Verdict{
		`{"merchantID":"JT01","invoiceNo":"order2","amount":"10.00","currencyCode":"SGD","respCode":"0000"}`: psp.InDoubt,
		`{"merchantID":"JT02","invoiceNo":"order1","amount":"10.00","currencyCode":"SGD","respCode":"0000"}`: psp.InDoubt,
		`{"amount":"10.00","currencyCode":"SGD","respCode":"0000"}`:                                          psp.InDoubt,
		`{"merchantID":"JT01","invoiceNo":"order2","respCode":"4005"}`:                                       psp.InDoubt,
		`{"merchantID":"JT01","invoiceNo":"order2","respCode":"2002"}`:                                       psp.InDoubt,
		`{"respCode":"2002","respDesc":"Transaction not found"}`:                                             psp.NotFound,
	} {
		provider := speaking(t, func(string) string { return signed(t, claims) })
		require.Equal(t, verdict, provider.Query(t.Context(), trade("order1", 1000)).Verdict, claims)
	}
}

func TestHTTPErrorsAreInDoubt(t *testing.T) {
	t.Parallel()
	made, err := keys()
	require.NoError(t, err)
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusBadGateway, http.StatusTooManyRequests} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
		}))
		t.Cleanup(server.Close)
		provider, err := twoctwop.New(configOf(made, server.URL))
		require.NoError(t, err)
		require.Equal(t, psp.InDoubt, provider.Charge(t.Context(), order("order1", 1000)).Verdict, status)
		require.Equal(t, psp.InDoubt, provider.Refund(t.Context(), refundOf("r1", 1)).Verdict, status)
	}
}

func TestCancelledPayment(t *testing.T) {
	t.Parallel()
	provider, _, server := setup(t, func(_ *twoctwop.Config, o *pspsim.Options) { o.ManualBuyer = true })
	provider.Charge(t.Context(), order("order1", 1000))
	post(t, server.URL+"/buyer", `{"provider":"2c2p","out_trade_no":"order1","action":"cancel"}`, nil)
	asked := provider.Query(t.Context(), trade("order1", 1000))
	require.Equal(t, psp.Terminal, asked.Verdict)
	require.Equal(t, "0003", asked.Code)
}

// A payment that was refunded in full was made all the same.
func TestRefundedPaymentWasPaid(t *testing.T) {
	t.Parallel()
	provider, _, _ := setup(t, nil)
	provider.Charge(t.Context(), order("order1", 1000))
	require.Equal(t, psp.Succeeded, provider.Refund(t.Context(), refundOf("r1", 1000)).Verdict)
	asked := provider.Query(t.Context(), trade("order1", 1000))
	require.Equal(t, psp.Succeeded, asked.Verdict)
	require.Equal(t, "4120", asked.Code)
	require.Equal(t, sgd(1000), asked.Paid)
}
