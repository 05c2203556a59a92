package pspsim_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pspsim"
)

// Keys are made once: RSA keys take their time.
var (
	ownKeys   = sync.OnceValues(pspsim.NewKeys)
	otherKeys = sync.OnceValues(pspsim.NewKeys)
)

func keysOf(t *testing.T, make func() (*pspsim.Keys, error)) *pspsim.Keys {
	t.Helper()
	keys, err := make()
	require.NoError(t, err)
	return keys
}

// fixture is a simulator behind real HTTP.
type fixture struct {
	t    *testing.T
	keys *pspsim.Keys
	sim  *pspsim.Simulator
	url  string
}

func setup(t *testing.T, options pspsim.Options) *fixture {
	t.Helper()
	options.Keys = keysOf(t, ownKeys)
	sim := pspsim.New(options)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(func() {
		sim.Close()
		server.Close()
	})
	return &fixture{t: t, keys: options.Keys, sim: sim, url: server.URL}
}

func (f *fixture) arm(provider, op, fault string) {
	f.t.Helper()
	require.NoError(f.t, f.sim.Arm(pspsim.Fault{Provider: provider, Op: op, Fault: fault}))
}

// moved lists the ledger as "charge 1000 CNY", one line a movement.
func (f *fixture) moved(provider, outTradeNo string) []string {
	var lines []string
	for _, e := range f.sim.Ledger() {
		if e.Provider == provider && e.OutTradeNo == outTradeNo {
			lines = append(lines, strings.Join([]string{e.Kind, strconv.FormatInt(e.Amount, 10), e.Currency}, " "))
		}
	}
	return lines
}

// send sends a request to the simulator and reads the answer.
func (f *fixture) send(method, path string, header http.Header, body string) (int, http.Header, string) {
	f.t.Helper()
	request, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, bytes.NewBufferString(body))
	require.NoError(f.t, err)
	if header != nil {
		request.Header = header
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(f.t, err)
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	require.NoError(f.t, err)
	return response.StatusCode, response.Header, string(read)
}

func (f *fixture) control(path, body string) (int, string) {
	f.t.Helper()
	status, _, answer := f.send(http.MethodPost, path, nil, body)
	return status, answer
}

// acknowledgement is how POST /notify tells that a message was answered.
type acknowledgement struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	Body        string `json:"body"`
	Error       string `json:"error"`
}

func (f *fixture) notify(body string) []acknowledgement {
	f.t.Helper()
	status, answer := f.control("/notify", body)
	require.Equal(f.t, http.StatusOK, status, answer)
	var told struct{ Acknowledgements []acknowledgement }
	require.NoError(f.t, json.Unmarshal([]byte(answer), &told))
	return told.Acknowledgements
}

// delivery is a notification as a server gets it.
type delivery struct {
	path   string
	header http.Header
	body   string
}

// inbox is a server for notifications. It hands on every delivery and answers
// with reply.
type inbox struct {
	url        string
	deliveries chan delivery
}

func newInbox(t *testing.T, reply func(http.ResponseWriter, delivery)) *inbox {
	t.Helper()
	box := &inbox{deliveries: make(chan delivery, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "unreadable", http.StatusBadRequest)
			return
		}
		got := delivery{path: r.URL.Path, header: r.Header, body: string(body)}
		reply(w, got)
		box.deliveries <- got
	}))
	t.Cleanup(server.Close)
	box.url = server.URL
	return box
}

// next waits for a delivery.
func (b *inbox) next(t *testing.T) delivery {
	t.Helper()
	select {
	case got := <-b.deliveries:
		return got
	case <-t.Context().Done():
		require.Fail(t, "no notification came")
		return delivery{}
	}
}

// acknowledge answers as the provider wants it.
func acknowledge(body string) func(http.ResponseWriter, delivery) {
	return func(w http.ResponseWriter, _ delivery) { _, _ = io.WriteString(w, body) }
}
