// Package console is where the people who run payonce look and act, in the
// browser: live figures, keys in flight, what is in doubt, the story of an
// order or a key. It works as the owner of the schemas, as the commands do, and
// shows no more than they do: no secret, no stored body, no payment link.
package console

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/internal/httpapi"
	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/metrics"
	"github.com/payonce/payonce/internal/operator"
	"github.com/payonce/payonce/internal/reconcile"
)

// Root is the path of the console; all else is below it.
const Root = "/console"

// listed bounds each list that a page shows.
const listed = 100

// maxForm bounds a form, in bytes.
const maxForm = 64 << 10

//go:embed pages/*.html assets/*
var files embed.FS

// Options are what a Console works with.
type Options struct {
	Access Access
	// Pool connects as the owner of the schemas.
	Pool *pgxpool.Pool
	// Reconciler asks the providers.
	Reconciler *reconcile.Reconciler
	// Figures are what this server has counted.
	Figures func() httpapi.Figures
	Metrics *metrics.Metrics
	Log     *slog.Logger
}

// Console serves the pages. Safe for use by several goroutines.
type Console struct {
	Options

	desk     *operator.Desk
	sessions *sessions
	throttle *throttle
	pages    [languages]pages
	assets   map[string]asset
	cross    *http.CrossOriginProtection
	handler  http.Handler

	mu     sync.Mutex
	recent snapshot
}

// New makes the handler of everything at and below Root.
func New(ctx context.Context, options Options) (*Console, error) {
	if err := options.Access.Check(); err != nil {
		return nil, err
	}
	desk, err := operator.New(ctx, options.Pool)
	if err != nil {
		return nil, fmt.Errorf("open the console: %w", err)
	}
	c := &Console{
		Options: options, desk: desk, sessions: newSessions(options.Access.Password), throttle: newThrottle(),
		cross: http.NewCrossOriginProtection(),
	}
	if c.assets, err = readAssets(); err != nil {
		return nil, err
	}
	for l := range languages {
		if c.pages[l], err = parsePages(l, c.assets); err != nil {
			return nil, err
		}
	}
	c.handler = httpguard.Observed(options.Log, options.Metrics, c.routes())
	return c, nil
}

func (c *Console) routes() http.Handler {
	router := mux.NewRouter()
	get := []string{http.MethodGet, http.MethodHead}
	router.HandleFunc(Root+"/assets/{name}", c.asset).Methods(get...)
	router.HandleFunc(Root+"/login", c.anybody(c.showLogin)).Methods(get...)
	router.HandleFunc(Root+"/login", c.anybody(c.logIn)).Methods(http.MethodPost)
	router.HandleFunc(Root+"/logout", c.operators(c.logOut)).Methods(http.MethodPost)
	router.HandleFunc(Root, c.operators(c.overview)).Methods(get...)
	router.HandleFunc(Root+"/in-doubt", c.operators(c.inDoubt)).Methods(get...)
	router.HandleFunc(Root+"/search", c.operators(c.search)).Methods(get...)
	router.HandleFunc(Root+"/order", c.operators(c.order)).Methods(get...)
	router.HandleFunc(Root+"/key", c.operators(c.key)).Methods(get...)
	router.HandleFunc(Root+"/key", c.operators(c.endKey)).Methods(http.MethodPost)
	router.HandleFunc(Root+"/ask", c.operators(c.ask)).Methods(http.MethodPost)
	router.HandleFunc(Root+"/upkeep", c.operators(c.upkeep)).Methods(get...)
	router.HandleFunc(Root+"/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, Root, http.StatusPermanentRedirect)
	}).Methods(get...)
	router.Use(httpapi.Named)
	router.NotFoundHandler = c.anybody(func(v *visit) error { return v.fail(http.StatusNotFound, "error.not_found") })
	router.MethodNotAllowedHandler = c.anybody(func(v *visit) error {
		return v.fail(http.StatusMethodNotAllowed, "error.method")
	})
	return router
}

// ServeHTTP answers one request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", strings.Join([]string{
		"default-src 'none'", "style-src 'self'", "script-src 'self'", "img-src 'self'", "connect-src 'self'",
		"form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
	}, "; "))
	header.Set("X-Content-Type-Options", "nosniff")
	// Not no-referrer: with that a browser sends "Origin: null" with our own forms.
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	c.handler.ServeHTTP(w, r)
}

// snapshot is what the overview shows of the database. Reading it costs a scan
// of all keys.
type snapshot struct {
	operator.Counts
	Held []operator.Key
	// read is when, by this server's clock, and cost how long that took.
	read time.Time
	cost time.Duration
}

// A snapshot is shown for as long as freshFor, or costShare times as long as it
// took to read, so that many open pages cost a large table no more than one.
const (
	freshFor  = time.Second
	costShare = 20
)

// snapshot returns a snapshot that is fresh enough. Its Now is the database's
// clock at this moment.
func (c *Console) snapshot(ctx context.Context) (snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := time.Since(c.recent.read); c.recent.read.IsZero() || age > max(freshFor, costShare*c.recent.cost) {
		started := time.Now()
		counts, err := c.desk.Count(ctx)
		if err != nil {
			return snapshot{}, err //nolint:wrapcheck // says what failed already
		}
		held, err := c.desk.Keys(ctx, operator.Filter{State: "held", Limit: listed})
		if err != nil {
			return snapshot{}, err //nolint:wrapcheck // says what failed already
		}
		c.recent = snapshot{Counts: counts, Held: held, read: time.Now(), cost: time.Since(started)}
	}
	now := c.recent
	now.Now = now.Now.Add(time.Since(now.read))
	return now, nil
}

// changed has the next page look anew.
func (c *Console) changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recent = snapshot{}
}
