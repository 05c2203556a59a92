package console_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/console"
	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpapi"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/internal/providers"
	"github.com/payonce/payonce/internal/pspsim"
	"github.com/payonce/payonce/internal/reconcile"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	apiKey   = "sk_test_merchant"
	password = "a password of tests"
)

// simulatorKeys are made once: RSA keys take their time.
var simulatorKeys = sync.OnceValues(pspsim.NewKeys)

// harness is a server with API, console, simulator and a database of its own.
// No reconciler runs by itself.
type harness struct {
	t         *testing.T
	server    *httptest.Server
	simulator *pspsim.Simulator
	db        *pgtest.DB
	conn      *pgx.Conn
	log       *strings.Builder
}

func setup(t *testing.T) *harness {
	t.Helper()
	return setupWith(t, console.Access{Password: password}, pgtest.New(t))
}

// setupWith sets up a server whose API has the app's role, as in production.
func setupWith(t *testing.T, access console.Access, db *pgtest.DB) *harness {
	t.Helper()
	ctx := t.Context()
	h := &harness{t: t, db: db, conn: db.Conn(t), log: &strings.Builder{}}
	require.NoError(t, payments.StoreAPIKey(ctx, h.conn, apiKey, "shop", ""))
	pool, err := postgres.Open(ctx, db.AppURL, append(guard.Statements(), payments.Statements()...)...)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	keys, err := simulatorKeys()
	require.NoError(t, err)

	h.server = httptest.NewUnstartedServer(nil)
	address := "http://" + h.server.Listener.Addr().String()
	h.simulator = pspsim.New(pspsim.Options{Keys: keys, NotifyURL: address, Quiet: true})
	sim := httptest.NewServer(h.simulator.Handler())
	t.Cleanup(func() {
		h.simulator.Close()
		sim.Close()
	})
	all, err := providers.Simulated(keys, sim.URL, address, http.DefaultClient)
	require.NoError(t, err)
	log := slog.New(slog.NewTextHandler(&locked{out: h.log}, nil))
	limits := payments.Limits{Lease: 30 * time.Second, TTL: time.Hour, EventTTL: time.Hour, Deadline: 10 * time.Second}
	service, err := payments.New(pool, all, limits, log)
	require.NoError(t, err)
	api := httpapi.New(service, payments.NewAPIKeys(pool), log)
	pages, err := console.New(ctx, console.Options{
		Access: access, Pool: db.Pool(t), Figures: api.Figures, Metrics: service.Metrics(), Log: log,
		Reconciler: reconcile.New(service, httpapi.StoredCharge, httpapi.StoredRefund, log),
	})
	require.NoError(t, err)
	serving := http.NewServeMux()
	serving.Handle("/", api)
	serving.Handle(console.Root, pages)
	serving.Handle(console.Root+"/", pages)
	h.server.Config.Handler = serving
	h.server.Start()
	t.Cleanup(h.server.Close)
	return h
}

// locked is a log that several goroutines write to.
type locked struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *locked) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(line)
}

// charge sends a charge of 10.50 CNY and returns the status.
func (h *harness) charge(key, orderID string) int {
	h.t.Helper()
	return h.chargeAmount(key, orderID, 1050)
}

func (h *harness) chargeAmount(key, orderID string, amount int) int {
	h.t.Helper()
	return h.post("/v1/charges", key,
		fmt.Sprintf(`{"order_id":%q,"provider":"alipay","amount":%d,"currency":"CNY","subject":"Tea"}`, orderID, amount))
}

func (h *harness) post(path, key, body string) int {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.server.URL+path, strings.NewReader(body))
	require.NoError(h.t, err)
	request.Header.Set("Authorization", "Bearer "+apiKey)
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	require.NoError(h.t, err)
	require.NoError(h.t, response.Body.Close())
	return response.StatusCode
}

// chargeInDoubt leaves a charge in doubt: the money moved, the answer was lost,
// and so were those to the inquiries. Its lease is then over.
func (h *harness) chargeInDoubt(key, orderID string) {
	h.t.Helper()
	require.NoError(h.t, h.simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "charge", Fault: "drop_after", Times: 1}))
	require.NoError(h.t, h.simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "query", Fault: "error_before", Times: 1}))
	require.Equal(h.t, http.StatusGatewayTimeout, h.charge(key, orderID))
}

func (h *harness) one(sql string, args ...any) (value string) {
	h.t.Helper()
	require.NoError(h.t, h.conn.QueryRow(h.t.Context(), sql, args...).Scan(&value))
	return value
}

// visitor is a browser without JavaScript.
type visitor struct {
	*harness

	client *http.Client
	header http.Header
}

func (h *harness) visitor() *visitor {
	jar, err := cookiejar.New(nil)
	require.NoError(h.t, err)
	return &visitor{harness: h, client: &http.Client{Jar: jar}, header: http.Header{}}
}

// ann is a visitor who has logged in.
func (h *harness) ann() *visitor {
	h.t.Helper()
	v := h.visitor()
	page := v.get("/console")
	require.Contains(h.t, page.title(), "Log in")
	page = v.submit(page, "/console/login", url.Values{"name": {"ann"}, "password": {password}})
	require.Equal(h.t, http.StatusOK, page.status, page.body)
	require.Contains(h.t, page.title(), "Overview")
	return v
}

// answered is what a visitor got in the end.
type answered struct {
	status int
	header http.Header
	path   string
	body   string
}

func (p answered) title() string {
	found := regexp.MustCompile(`<h1>([^<]*)</h1>`).FindStringSubmatch(p.body)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

// text is the page without its tags.
func (p answered) text() string {
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(p.body, " ")
	return strings.Join(strings.Fields(html.UnescapeString(text)), " ")
}

// figure is one of the live figures by its id.
func (p answered) figure(id string) string {
	found := regexp.MustCompile(`id="` + id + `">([^<]*)<`).FindStringSubmatch(p.body)
	if found == nil {
		return ""
	}
	return found[1]
}

func (v *visitor) get(path string) answered {
	v.t.Helper()
	return v.do(http.MethodGet, path, nil)
}

var fieldPattern = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// submit sends the first form of a page with that action, with its hidden fields.
func (v *visitor) submit(from answered, action string, fields url.Values) answered {
	v.t.Helper()
	_, form, ok := strings.Cut(from.body, `action="`+action+`" method="post"`)
	require.True(v.t, ok, "no form for %s in %s", action, from.body)
	form, _, _ = strings.Cut(form, "</form>")
	sent := url.Values{}
	for _, field := range fieldPattern.FindAllStringSubmatch(form, -1) {
		sent.Set(html.UnescapeString(field[1]), html.UnescapeString(field[2]))
	}
	for name, values := range fields {
		sent[name] = values
	}
	return v.do(http.MethodPost, action, sent)
}

func (v *visitor) do(method, path string, form url.Values) answered {
	v.t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(v.t.Context()), method, v.server.URL+path, strings.NewReader(form.Encode()))
	require.NoError(v.t, err)
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, values := range v.header {
		request.Header[name] = values
	}
	response, err := v.client.Do(request)
	require.NoError(v.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(v.t, err)
	return answered{response.StatusCode, response.Header, response.Request.URL.RequestURI(), string(body)}
}
