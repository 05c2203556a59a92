package unguarded_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/unguarded"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// provider notes what it is charged and what was stored by then.
type provider struct {
	psp.Provider
	t       *testing.T
	owner   *pgxpool.Pool
	verdict psp.Verdict
	charged []psp.ChargeRequest
}

func (p *provider) Name() string                     { return "alipay" }
func (p *provider) Validate(psp.ChargeRequest) error { return nil }

func (p *provider) Charge(ctx context.Context, request psp.ChargeRequest) psp.Result {
	require.NoError(p.t, ctx.Err())
	require.Equal(p.t, "processing", p.status(ctx, request.OrderID))
	p.charged = append(p.charged, request)
	return psp.Result{Verdict: p.verdict, TradeNo: "trade-1"}
}

func (p *provider) status(ctx context.Context, orderID string) (status string) {
	err := p.owner.QueryRow(ctx, "SELECT status FROM unguarded.orders WHERE order_id = $1", orderID).Scan(&status)
	require.NoError(p.t, err)
	return status
}

func setup(t *testing.T) (*provider, http.Handler) {
	t.Helper()
	db := pgtest.New(t)
	owner, err := pgxpool.New(t.Context(), db.URL)
	require.NoError(t, err)
	t.Cleanup(owner.Close)
	require.NoError(t, unguarded.Install(t.Context(), owner))
	require.NoError(t, unguarded.Install(t.Context(), owner), "twice is harmless")
	pool, err := postgres.Open(t.Context(), db.AppURL, unguarded.Statements()...)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	p := &provider{t: t, owner: owner, verdict: psp.Succeeded}
	return p, unguarded.New(pool, p)
}

const body = `{"order_id":"cart-1","provider":"alipay","amount":1000,"currency":"CNY"}`

func post(ctx context.Context, handler http.Handler, body string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/charges", strings.NewReader(body)))
	return answer
}

// What the handler is there to show: it stores before and after, and yet a
// retry charges again.
func TestARetryChargesTwice(t *testing.T) {
	t.Parallel()
	p, handler := setup(t)
	for range 2 {
		answer := post(t.Context(), handler, body)
		require.Equal(t, http.StatusCreated, answer.Code, answer.Body.String())
		var told struct {
			OrderID string `json:"order_id"`
			TradeNo string `json:"trade_no"`
		}
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &told))
		require.Equal(t, "succeeded", p.status(t.Context(), told.OrderID))
		require.Equal(t, "trade-1", told.TradeNo)
	}
	require.Len(t, p.charged, 2)
	require.NotEqual(t, p.charged[0].OrderID, p.charged[1].OrderID)
}

func TestEveryVerdictIsStoredAndAnswered(t *testing.T) {
	t.Parallel()
	p, handler := setup(t)
	for verdict, status := range map[psp.Verdict]int{
		psp.Pending:   http.StatusCreated,
		psp.Terminal:  http.StatusPaymentRequired,
		psp.InDoubt:   http.StatusGatewayTimeout,
		psp.Transient: http.StatusBadGateway,
	} {
		p.verdict = verdict
		require.Equal(t, status, post(t.Context(), handler, body).Code)
		require.Equal(t, verdict.String(), p.status(t.Context(), p.charged[len(p.charged)-1].OrderID))
	}
}

func TestWhatIsNotAChargeIsRefused(t *testing.T) {
	t.Parallel()
	p, handler := setup(t)
	for _, refused := range []string{
		"",
		`{"provider":"paypal","amount":1,"currency":"CNY"}`,
		`{"provider":"alipay","amount":0,"currency":"CNY"}`,
		`{"provider":"alipay","amount":1,"currency":"cny"}`,
	} {
		require.Equal(t, http.StatusBadRequest, post(t.Context(), handler, refused).Code, refused)
	}
	require.Empty(t, p.charged)
}
