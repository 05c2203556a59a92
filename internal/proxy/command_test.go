package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The same cases as TestConformance, against the program as it is shipped; and
// what only the program can show.
func TestCommand(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "payonce")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/payonce").CombinedOutput()
	require.NoError(t, err, "%s", output)
	for name, test := range map[string]func(*testing.T, string){
		"conformance":                    conformanceOfCommand,
		"keys resolve ends what is lost": resolveByHand,
		"stop":                           stopCommand,
		"FF-04 FF-05 kill -9":            killCommand,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, program)
		})
	}
}

func conformanceOfCommand(t *testing.T, program string) {
	s := newService(t)
	s.start(program, s.upstream.server.URL, routes)
	s.conform(t)
}

// process is a running `payonce proxy`.
type process struct {
	command *exec.Cmd
	// log has the lines that it logged, and is closed when it has ended.
	log chan map[string]any
}

// start runs the program in front of an upstream.
func (s *setup) start(program, upstreamURL, routes string, flags ...string) *process {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "routes.yaml")
	require.NoError(s.t, os.WriteFile(file, []byte(routes), 0o600))
	arguments := append([]string{
		"proxy", "--upstream", upstreamURL, "--routes", file, "--listen", "127.0.0.1:0", "--database-url", s.db.AppURL,
	}, flags...)
	it := &process{command: exec.CommandContext(s.t.Context(), program, arguments...), log: make(chan map[string]any, 10_000)}
	stderr, err := it.command.StderrPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, it.command.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(it.log)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			var line map[string]any
			if json.Unmarshal(lines.Bytes(), &line) != nil {
				line = map[string]any{"msg": lines.Text()}
			}
			it.log <- line
		}
	}()
	s.t.Cleanup(func() {
		_ = it.command.Process.Kill()
		<-ended
		_ = it.command.Wait()
	})
	s.address, _ = it.logged(s.t, "guarding")["address"].(string)
	s.url = "http://" + s.address
	return it
}

// logged waits for a message.
func (p *process) logged(t *testing.T, message string) map[string]any {
	t.Helper()
	for late := time.After(patience); ; {
		select {
		case line, more := <-p.log:
			require.True(t, more, "payonce proxy ended")
			if line["msg"] == message {
				return line
			}
			require.NotContains(t, line["msg"], "rror: ", "payonce proxy did not start")
		case <-late:
			require.Fail(t, "no such line in the log: "+message)
		}
	}
}

// An operator finds the key whose outcome is unknown, and ends it.
func resolveByHand(t *testing.T, program string) {
	s := newService(t)
	s.start(program, s.upstream.server.URL, routes)
	s.upstream.plan("order-1", []reaction{{cut: true}})
	pay := func() answer {
		got, err := s.perform(t.Context(), "order-1", step{body: `{"amount":1}`, header: merchant("secret-merchant")})
		require.NoError(t, err)
		return got
	}
	require.Equal(t, http.StatusBadGateway, pay().status)
	require.Equal(t, "outcome_unknown", pay().code())

	keys := func(arguments ...string) string {
		arguments = append(append([]string{"keys"}, arguments...), "--database-url", s.db.URL)
		output, err := exec.CommandContext(t.Context(), program, arguments...).CombinedOutput()
		require.NoError(t, err, "%s", output)
		return string(output)
	}
	var listed struct {
		Scope string `json:"scope"`
		State string `json:"state"`
	}
	list := keys("list", "--json", "--state", "in_doubt", "--prefix", "order-1")
	require.NotContains(t, list, "secret-merchant")
	require.NoError(t, json.Unmarshal([]byte(list), &listed))
	require.Regexp(t, `^proxy/shop/header/[0-9a-f]{64}$`, listed.Scope)
	body := filepath.Join(t.TempDir(), "answer.json")
	require.NoError(t, os.WriteFile(body, []byte(`{"id":"pay-7"}`), 0o600))
	keys("resolve", listed.Scope, "order-1", "--status", "201", "--body-file", body, "--reason", "the service has it", "--yes")

	got := pay()
	require.Equal(t, http.StatusCreated, got.status)
	require.Equal(t, `{"id":"pay-7"}`, got.body)
	require.Equal(t, "true", got.header.Get("Idempotency-Replayed"))
	require.Len(t, s.upstream.requests("order-1"), 1)
}

// SIGTERM lets what runs finish; what does not finish in time is left in doubt.
func stopCommand(t *testing.T, program string) {
	for name, c := range map[string]struct {
		within, outcome string
		letGo           bool
		want            want
	}{
		"finishes": {within: "1m", letGo: true, outcome: "completed", want: isMade},
		"halts":    {within: "10ms", outcome: "in_doubt", want: want{status: 502, code: "outcome_unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			it := s.start(program, s.upstream.server.URL, routes, "--stop-within", c.within)
			s.upstream.plan(name, []reaction{{raw: made.raw, hold: true}})
			defer s.upstream.letGo(name)
			pending := make(chan answer, 1)
			go func() {
				got, _ := s.perform(t.Context(), name, step{})
				pending <- got
			}()
			<-s.upstream.arrived(name)
			require.NoError(t, it.command.Process.Signal(syscall.SIGTERM))
			if c.letGo {
				require.Eventually(t, func() bool {
					_, err := http.Get(s.url) //nolint:noctx,bodyclose // refused in the end
					return err != nil && strings.Contains(err.Error(), "refused")
				}, patience, time.Millisecond, "no new connections")
				s.upstream.letGo(name)
			}
			c.want.check(t, 0, <-pending)
			line := it.logged(t, "request")
			for line["path"] != "/pay" { // one that only tried to connect may have come in time
				line = it.logged(t, "request")
			}
			require.Equal(t, c.outcome, line["outcome"])
			for range it.log { // until the program has ended
			}
			require.NoError(t, it.command.Wait())
			_, state, _ := s.inspect(name)
			require.Equal(t, c.outcome, state)
		})
	}
}

// A proxy that dies leaves its key in doubt when the lease is over.
func killCommand(t *testing.T, program string) {
	s := newService(t)
	it := s.start(program, s.upstream.server.URL, routes)
	s.upstream.plan("killed", []reaction{{raw: made.raw, hold: true}})
	defer s.upstream.letGo("killed")
	go func() { _, _ = s.perform(context.WithoutCancel(t.Context()), "killed", step{path: "/short"}) }()
	<-s.upstream.arrived("killed")
	require.NoError(t, it.command.Process.Kill())
	s.start(program, s.upstream.server.URL, routes)
	require.Eventually(t, func() bool {
		got, err := s.perform(t.Context(), "killed", step{path: "/short"})
		require.NoError(t, err)
		require.Equal(t, http.StatusConflict, got.status)
		return got.code() == "outcome_unknown"
	}, patience, 50*time.Millisecond, "when the lease has ended")
	require.Len(t, s.upstream.requests("killed"), 1)
}
