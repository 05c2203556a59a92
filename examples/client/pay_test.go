// Package client_test runs the programs of docs/client.md against payonce with
// a real database and the simulator, behind a front that loses answers.
package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpapi"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/internal/providers"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The exit codes of the programs.
const (
	paid    = 0
	refused = 1
	unknown = 2
	usage   = 64
)

const apiKey = "sk_test_client"

// simulatorKeys are made once: RSA keys take their time.
var simulatorKeys = sync.OnceValues(pspsim.NewKeys)

// server is payonce behind a front.
type server struct {
	t         *testing.T
	url       string // of the front
	simulator *pspsim.Simulator
	simURL    string

	api    string
	mu     sync.Mutex
	script []action
	posts  []post
}

// action is what the front does with one POST instead of passing it on and its
// answer back.
type action func(s *server, w http.ResponseWriter, r *http.Request)

// post is a POST as it came to the front.
type post struct {
	key, contentType, body string
	at                     time.Time
}

// serve starts payonce. The script's first action is for the first POST, and so
// on.
func serve(t *testing.T, options pspsim.Options, script ...action) *server {
	t.Helper()
	ctx := t.Context()
	db := pgtest.New(t)
	require.NoError(t, payments.StoreAPIKey(ctx, db.Conn(t), apiKey, "shop", ""))
	pool, err := postgres.Open(ctx, db.AppURL, append(guard.Statements(), payments.Statements()...)...)
	require.NoError(t, err)
	t.Cleanup(pool.Close)

	keys, err := simulatorKeys()
	require.NoError(t, err)
	api := httptest.NewUnstartedServer(nil)
	address := "http://" + api.Listener.Addr().String()
	options.Keys, options.NotifyURL = keys, address
	simulator := pspsim.New(options)
	sim := httptest.NewServer(simulator.Handler())
	t.Cleanup(func() {
		simulator.Close()
		sim.Close()
	})
	all, err := providers.Simulated(keys, sim.URL, address, nil)
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	service, err := payments.New(pool, all, payments.DefaultLimits(), log)
	require.NoError(t, err)
	api.Config.Handler = httpapi.New(service, payments.NewAPIKeys(pool), log)
	api.Start()
	t.Cleanup(api.Close)

	s := &server{t: t, simulator: simulator, simURL: sim.URL, api: address, script: script}
	front := httptest.NewServer(http.HandlerFunc(s.front))
	t.Cleanup(front.Close)
	s.url = front.URL
	return s
}

func (s *server) front(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("the front could not read a request: %v", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	act := pass
	if r.Method == http.MethodPost {
		s.mu.Lock()
		s.posts = append(s.posts, post{
			key: r.Header.Get("Idempotency-Key"), contentType: r.Header.Get("Content-Type"), body: string(body), at: time.Now(),
		})
		if len(s.script) > 0 {
			act, s.script = s.script[0], s.script[1:]
		}
		s.mu.Unlock()
	}
	act(s, w, r)
}

// pass passes a request and its answer on.
func pass(s *server, w http.ResponseWriter, r *http.Request) {
	api, err := url.Parse(s.api)
	if err != nil {
		s.t.Errorf("the api's address: %v", err)
	}
	(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(api) }}).ServeHTTP(w, r)
}

// cut lets payonce finish, then cuts the connection instead of answering.
func cut(s *server, _ http.ResponseWriter, r *http.Request) {
	pass(s, httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// cutAtWork cuts the connection while payonce waits for the provider, and lets
// it work on.
func cutAtWork(s *server, _ http.ResponseWriter, r *http.Request) {
	go pass(s, httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
	for s.simulator.Requests()["alipay/charge"] == 0 {
		time.Sleep(time.Millisecond)
	}
	panic(http.ErrAbortHandler)
}

// truncate cuts the connection in the middle of the answer's body.
func truncate(s *server, w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	pass(s, answer, r)
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
	panic(http.ErrAbortHandler)
}

// answer answers as a load balancer does, without payonce.
func answer(status int, header ...string) action {
	return func(_ *server, w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html>not payonce</html>")
	}
}

// arm makes the simulator's next calls fail.
func (s *server) arm(faults ...pspsim.Fault) {
	s.t.Helper()
	for _, fault := range faults {
		fault.Provider = "alipay"
		require.NoError(s.t, s.simulator.Arm(fault))
	}
}

// sent are the POSTs so far. All are the same request.
func (s *server) sent() []post {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.posts {
		require.NoError(s.t, uuid.Validate(p.key))
		require.Equal(s.t, "application/json", p.contentType)
		require.Equal(s.t, s.posts[0].key, p.key)
		require.Equal(s.t, s.posts[0].body, p.body)
	}
	return append([]post{}, s.posts...)
}

func (s *server) charged(want int) {
	s.t.Helper()
	charges := 0
	for _, entry := range s.simulator.Ledger() {
		if entry.Kind == "charge" {
			charges++
		}
	}
	require.Equal(s.t, want, charges, "%+v", s.simulator.Ledger())
}

// program is one of the clients, with a folder for its keys.
type program struct {
	t       *testing.T
	command []string
	folder  string
	budget  string // seconds
}

// ended is what a program did.
type ended struct {
	code           int
	stdout, stderr string
}

// run runs the program to its end.
func (p program) run(address, order, amount string) ended {
	p.t.Helper()
	command := exec.CommandContext(p.t.Context(), p.command[0], append(p.command[1:], order, amount, "CNY")...)
	command.Dir = p.folder
	command.Env = append(os.Environ(), "PAYONCE_URL="+address, "PAYONCE_API_KEY="+apiKey, "PAYONCE_BUDGET="+p.budget)
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Errorf("run %s: %v", p.command[0], err)
	}
	require.NotContains(p.t, stdout.String()+stderr.String(), apiKey)
	return ended{code: command.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
}

// pays runs the program, which has to pay, and returns the charge's number.
func (p program) pays(address, order string) string {
	p.t.Helper()
	end := p.run(address, order, "1000")
	require.Equal(p.t, paid, end.code, end.stderr)
	var charge struct {
		ChargeID string `json:"charge_id"`
		Status   string `json:"status"`
	}
	require.NoError(p.t, json.Unmarshal([]byte(end.stdout), &charge), end.stdout)
	require.Equal(p.t, "succeeded", charge.Status)
	return charge.ChargeID
}

func (p program) ends(code int, address, order string) ended {
	p.t.Helper()
	end := p.run(address, order, "1000")
	require.Equal(p.t, code, end.code, end.stderr)
	return end
}

// key is the content of an order's key file; nothing else is left in the folder.
func (p program) key(order string) string {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(p.folder, "*"))
	require.NoError(p.t, err)
	require.Equal(p.t, []string{filepath.Join(p.folder, order+".key")}, files)
	content, err := os.ReadFile(files[0])
	require.NoError(p.t, err)
	return strings.TrimSpace(string(content))
}

// programs are the command lines by language.
func programs(t *testing.T) map[string][]string {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	compiled := filepath.Join(t.TempDir(), "pay")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", compiled, "./go").CombinedOutput()
	require.NoError(t, err, "%s", output)
	all := map[string][]string{
		"curl":   {filepath.Join(here, "curl/pay.sh")},
		"python": {"python3", filepath.Join(here, "python/pay.py")},
		"node":   {"node", filepath.Join(here, "node/pay.js")},
		"go":     {compiled},
	}
	for _, command := range all {
		_, err := exec.LookPath(command[0])
		require.NoError(t, err, "install what runs the example: scripts/install-test-needs.sh")
	}
	return all
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	for name, command := range programs(t) {
		for story, test := range stories {
			t.Run(name+"/"+story, func(t *testing.T) {
				t.Parallel()
				test(t, program{t: t, command: command, folder: t.TempDir(), budget: "120"})
			})
		}
	}
}

var stories = map[string]func(*testing.T, program){
	"the first answer is lost":           firstAnswerLost,
	"the answer is cut in its middle":    answerTruncated,
	"the first try is still at work":     stillAtWork,
	"the provider fails before":          providerFailsBefore,
	"the provider's answer is lost":      providerAnswerLost,
	"nobody knows for a while":           outcomeUnknown,
	"declined":                           declined,
	"the server is away, then back":      serverAway,
	"the buyer pays later":               buyerPaysLater,
	"two processes at once":              twoAtOnce,
	"Retry-After":                        retryAfter,
	"refused before anything was taken":  refusedAtOnce,
	"refused after a try without an end": refusedAfterUnknown,
	"an answer that is not payonce's":    strangeAnswer,
	"another amount under the key":       otherAmount,
	"called in a wrong way":              calledWrong,
}

func firstAnswerLost(t *testing.T, p program) {
	s := serve(t, pspsim.Options{}, cut)
	charge := p.pays(s.url, "order-1")
	require.Len(t, s.sent(), 2)
	require.Equal(t, s.sent()[0].key, p.key("order-1"))
	require.Equal(t, charge, p.pays(s.url, "order-1"), "a rerun gives the same charge")
	require.Len(t, s.sent(), 3)
	s.charged(1)
}

func answerTruncated(t *testing.T, p program) {
	s := serve(t, pspsim.Options{}, truncate)
	p.pays(s.url, "order-1")
	require.Len(t, s.sent(), 2)
	s.charged(1)
}

func stillAtWork(t *testing.T, p program) {
	s := serve(t, pspsim.Options{}, cutAtWork)
	s.arm(pspsim.Fault{Op: "charge", Fault: "delay", DelayMS: 1500})
	end := p.ends(paid, s.url, "order-1")
	require.Contains(t, end.stderr, "key_in_progress")
	s.sent()
	s.charged(1)
}

func providerFailsBefore(t *testing.T, p program) {
	s := serve(t, pspsim.Options{})
	// Each is asked about at once, and no such trade is found.
	s.arm(pspsim.Fault{Op: "charge", Fault: "error_before", Times: 2})
	p.pays(s.url, "order-1")
	require.Greater(t, s.simulator.Requests()["alipay/charge"], 2)
	s.sent()
	s.charged(1)
}

func providerAnswerLost(t *testing.T, p program) {
	s := serve(t, pspsim.Options{})
	s.arm(pspsim.Fault{Op: "charge", Fault: "drop_after"})
	charge := p.pays(s.url, "order-1")
	require.Equal(t, charge, p.pays(s.url, "order-1"))
	require.Equal(t, 1, s.simulator.Requests()["alipay/charge"])
	s.charged(1)
}

// outcomeUnknown has the provider take the money and then answer nothing, also
// not when it is asked.
func outcomeUnknown(t *testing.T, p program) {
	s := serve(t, pspsim.Options{Quiet: true})
	s.arm(pspsim.Fault{Op: "charge", Fault: "drop_after"}, pspsim.Fault{Op: "query", Fault: "error_before", Times: 2})
	end := p.ends(paid, s.url, "order-1")
	require.Contains(t, end.stderr, "outcome_unknown")
	require.Equal(t, 1, s.simulator.Requests()["alipay/charge"])
	s.sent()
	s.charged(1)
}

func declined(t *testing.T, p program) {
	s := serve(t, pspsim.Options{})
	s.arm(pspsim.Fault{Op: "charge", Fault: "decline"})
	end := p.ends(refused, s.url, "order-1")
	require.Contains(t, end.stderr, "charge_declined")
	require.Len(t, s.sent(), 1, "402 is not tried again")
	p.ends(refused, s.url, "order-1")
	require.Len(t, s.sent(), 2)
	require.Equal(t, 1, s.simulator.Requests()["alipay/charge"])
	s.charged(0)
}

func serverAway(t *testing.T, p program) {
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	impatient := p
	impatient.budget = "1"
	impatient.ends(unknown, away.URL, "order-1")
	key := p.key("order-1")

	s := serve(t, pspsim.Options{})
	p.pays(s.url, "order-1")
	require.Equal(t, key, s.sent()[0].key, "the key of the run that got no answer")
	s.charged(1)
}

func buyerPaysLater(t *testing.T, p program) {
	s := serve(t, pspsim.Options{ManualBuyer: true})
	impatient := p
	impatient.budget = "2"
	end := impatient.ends(unknown, s.url, "order-1")
	require.Contains(t, end.stderr, `"status":"pending"`)
	s.charged(0)

	pay := `{"provider":"alipay","out_trade_no":"order-1","action":"pay"}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.simURL+"/buyer", strings.NewReader(pay))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	p.pays(s.url, "order-1")
	s.charged(1)
}

func twoAtOnce(t *testing.T, p program) {
	s := serve(t, pspsim.Options{})
	s.arm(pspsim.Fault{Op: "charge", Fault: "delay", DelayMS: 300})
	var running sync.WaitGroup
	ends := make([]ended, 3)
	for i := range ends {
		running.Go(func() { ends[i] = p.run(s.url, "order-1", "1000") })
	}
	running.Wait()
	for _, end := range ends {
		require.Equal(t, paid, end.code, end.stderr)
	}
	require.GreaterOrEqual(t, len(s.sent()), len(ends))
	require.Equal(t, s.sent()[0].key, p.key("order-1"))
	s.charged(1)
}

func retryAfter(t *testing.T, p program) {
	dates := make(chan time.Time, 1)
	s := serve(t, pspsim.Options{}, answer(429, "Retry-After", "2"), answer(503, "Retry-After", "1"),
		func(s *server, w http.ResponseWriter, r *http.Request) {
			date := time.Now().Add(3 * time.Second).Truncate(time.Second)
			dates <- date
			answer(503, "Retry-After", date.UTC().Format(http.TimeFormat))(s, w, r)
		},
		answer(503, "Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"), answer(503, "Retry-After", "soon"))
	p.pays(s.url, "order-1")
	posts := s.sent()
	require.Len(t, posts, 6)
	require.GreaterOrEqual(t, posts[1].at.Sub(posts[0].at), 2*time.Second)
	require.GreaterOrEqual(t, posts[2].at.Sub(posts[1].at), time.Second)
	date := <-dates
	require.False(t, posts[3].at.Before(date), "%s, asked for %s", posts[3].at, date)
	s.charged(1)

	// One that is past the budget ends it at once.
	s = serve(t, pspsim.Options{}, answer(503, "Retry-After", "86400"))
	p.folder = t.TempDir()
	p.ends(unknown, s.url, "order-1")
	require.Len(t, s.sent(), 1)
	s.charged(0)
}

func refusedAtOnce(t *testing.T, p program) {
	for _, status := range []int{400, 401, 403, 413} {
		s := serve(t, pspsim.Options{}, answer(status))
		p.folder = t.TempDir()
		p.ends(refused, s.url, "order-1")
		require.Len(t, s.sent(), 1, "%d is not tried again", status)
		s.charged(0)
	}
}

// refusedAfterUnknown: a refusal that never looked at the key says nothing of
// the try before it, which had moved the money.
func refusedAfterUnknown(t *testing.T, p program) {
	s := serve(t, pspsim.Options{}, cut, answer(401), answer(401))
	p.ends(unknown, s.url, "order-1")
	p.ends(unknown, s.url, "order-1")
	s.charged(1)
	p.pays(s.url, "order-1")
	s.charged(1)
}

// strangeAnswer: what does not come from payonce is no payment, and the api key
// does not follow a redirect.
func strangeAnswer(t *testing.T, p program) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed, with Authorization %q", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	for _, strange := range []action{answer(200), answer(302, "Location", elsewhere.URL), answer(307, "Location", elsewhere.URL)} {
		s := serve(t, pspsim.Options{}, strange)
		p.folder = t.TempDir()
		require.NotEqual(t, paid, p.run(s.url, "order-1", "1000").code)
		s.charged(0)
	}
	s := serve(t, pspsim.Options{}, answer(201))
	p.ends(unknown, s.url, "order-2")
}

func otherAmount(t *testing.T, p program) {
	s := serve(t, pspsim.Options{})
	p.pays(s.url, "order-1")
	end := p.run(s.url, "order-1", "999")
	require.Equal(t, refused, end.code)
	require.Contains(t, end.stderr, "key_reused")
	s.charged(1)
}

func calledWrong(t *testing.T, p program) {
	s := serve(t, pspsim.Options{})
	for _, words := range [][2]string{{"../order", "1000"}, {"order 1", "1000"}, {"order-1", "10.00"}, {"order-1", "0"}, {"", "1"}} {
		require.Equal(t, usage, p.run(s.url, words[0], words[1]).code, words)
	}
	require.Empty(t, s.sent())
	files, err := os.ReadDir(p.folder)
	require.NoError(t, err)
	require.Empty(t, files)
}
