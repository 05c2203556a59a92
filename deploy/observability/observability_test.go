// Package observability_test holds the dashboard and the alert rules against
// Prometheus' own tools and against what payonce really exposes.
package observability_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/payonce/payonce/internal/freeport"
	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/metrics"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/psp"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	rulesFile     = "alerts.yaml"
	ruleTestsFile = "alerts_test.yaml"
	dashboardFile = "grafana-dashboard.json"
	page          = "https://github.com/payonce/payonce/blob/main/docs/observability.md#"
)

// tool runs one of Prometheus' programs.
func tool(t *testing.T, folder, name string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), installed(t, name), args...)
	command.Dir = folder
	output, err := command.CombinedOutput()
	return string(output), err
}

func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	require.NoError(t, err, "install Prometheus: Debian's package prometheus, brew install prometheus")
	return path
}

type rules struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	} `yaml:"groups"`
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func readRules(t *testing.T) rules {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	var read rules
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&read))
	require.Len(t, read.Groups, 1)
	return read
}

func TestRulesPassPromtool(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"check", "rules", rulesFile}, {"check", "config", "prometheus.yaml"}, {"test", "rules", ruleTestsFile},
	} {
		output, err := tool(t, ".", "promtool", args...)
		require.NoError(t, err, "promtool %v: %s", args, output)
	}
}

// A rule that never fires fails the unit tests, whichever it is: each has a test.
func TestEveryRuleIsTested(t *testing.T) {
	t.Parallel()
	unitTests, err := os.ReadFile(ruleTestsFile)
	require.NoError(t, err)
	for i, broken := range readRules(t).Groups[0].Rules {
		read := readRules(t)
		read.Groups[0].Rules[i].Expr = "vector(0) > 1"
		text, err := yaml.Marshal(read)
		require.NoError(t, err)
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, rulesFile), text, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(folder, ruleTestsFile), unitTests, 0o600))
		output, err := tool(t, folder, "promtool", "test", "rules", ruleTestsFile)
		require.Error(t, err, "%s has no test in which it fires", broken.Alert)
		require.Contains(t, output, broken.Alert)
	}
}

// Every alert says how urgent it is, and its page what to do.
func TestEveryAlertIsExplained(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	var explained, known []string
	for _, heading := range regexp.MustCompile(`(?m)^### (Payonce\w+)$`).FindAllStringSubmatch(string(text), -1) {
		explained = append(explained, heading[1])
	}
	for _, alert := range readRules(t).Groups[0].Rules {
		known = append(known, alert.Alert)
		require.Contains(t, []string{"page", "ticket"}, alert.Labels["severity"], alert.Alert)
		require.NotEmpty(t, alert.Annotations["summary"], alert.Alert)
		require.NotEmpty(t, alert.For, alert.Alert)
		require.Equal(t, page+strings.ToLower(alert.Alert), alert.Annotations["runbook_url"])
	}
	require.Equal(t, known, explained, "docs/observability.md, in the order of the rules")
}

type dashboard struct {
	Panels []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
		GridPos struct{ X, Y, W, H int } `json:"gridPos"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name string `json:"name"`
		} `json:"list"`
	} `json:"templating"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	var read dashboard
	require.NoError(t, json.Unmarshal(text, &read))
	return read
}

// queries are the dashboard's, by panel, as Grafana would send them.
func (d dashboard) queries() map[string][]string {
	asSent := strings.NewReplacer("$__rate_interval", "10s", "$job", ".*", "$instance", ".*")
	queries := map[string][]string{}
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			queries[panel.Title] = append(queries[panel.Title], asSent.Replace(target.Expr))
		}
	}
	return queries
}

func TestDashboardIsWhole(t *testing.T) {
	t.Parallel()
	read := readDashboard(t)
	ids, titles, taken := map[int]bool{}, map[string]bool{}, map[[2]int]string{}
	for _, panel := range read.Panels {
		require.False(t, ids[panel.ID], "two panels have id %d", panel.ID)
		require.False(t, titles[panel.Title], "two panels are %q", panel.Title)
		ids[panel.ID], titles[panel.Title] = true, true
		require.Equal(t, panel.Type == "row", len(panel.Targets) == 0, panel.Title)
		require.LessOrEqual(t, panel.GridPos.X+panel.GridPos.W, 24, panel.Title)
		for x := range panel.GridPos.W {
			for y := range panel.GridPos.H {
				at := [2]int{panel.GridPos.X + x, panel.GridPos.Y + y}
				require.Empty(t, taken[at], "%q lies over another panel", panel.Title)
				taken[at] = panel.Title
			}
		}
	}
	for _, query := range read.queries() {
		require.NotContains(t, strings.Join(query, " "), "$", "a variable that is not there")
	}
}

// exposition serves a real /metrics on which every metric has values that grow.
type exposition struct {
	t       *testing.T
	pool    *pgxpool.Pool
	metrics *metrics.Metrics
	server  *httptest.Server
}

func expose(t *testing.T) *exposition {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.New(t).URL)
	require.NoError(t, err)
	config.MaxConns = 1 // so that there are waits
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	e := &exposition{t: t, pool: pool, metrics: metrics.New(pool, slog.New(slog.DiscardHandler), metrics.Backlog)}
	e.server = httptest.NewServer(e.metrics.Handler())
	t.Cleanup(e.server.Close)
	e.count(t.Context())
	return e
}

// count counts one of everything that the code counts.
func (e *exposition) count(ctx context.Context) {
	m := e.metrics
	for _, route := range []string{"/v1/charges", "default", "unguarded"} {
		for _, status := range []int{0, http.StatusCreated, http.StatusServiceUnavailable} {
			m.Request(route, http.MethodPost, status, time.Millisecond)
		}
	}
	for _, work := range []metrics.Work{metrics.Order, metrics.Charge, metrics.Refund, metrics.Proxied} {
		for _, outcome := range append(guard.Outcomes(), payments.SQLOutcomes()...) {
			m.Claim(work, string(outcome))
		}
		m.TakeOver(work, metrics.Request)
		m.TakeOver(work, metrics.Reconciler)
		m.Ended(work, string(payments.Succeeded))
		m.Found(work, string(payments.Succeeded))
	}
	for verdict := psp.InDoubt; verdict <= psp.NotFound; verdict++ {
		m.ProviderCall("alipay", "charge", verdict.String(), time.Millisecond)
	}
	for _, result := range []string{string(payments.Applied), "notification_failed", "notification_invalid"} {
		m.Notification("alipay", result)
	}
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() { _, _ = e.pool.Exec(ctx, "SELECT pg_catalog.pg_sleep(0.01)") })
	}
	waiting.Wait()
}

func (e *exposition) families() map[string]*dto.MetricFamily {
	e.t.Helper()
	gathered, err := e.metrics.Gatherer().Gather()
	require.NoError(e.t, err)
	families := map[string]*dto.MetricFamily{}
	for _, family := range gathered {
		families[family.GetName()] = family
		if family.GetType() == dto.MetricType_HISTOGRAM {
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				families[family.GetName()+suffix] = family
			}
		}
	}
	return families
}

var (
	metricName = regexp.MustCompile(`\b(?:payonce|process)_[a-z_]+\b`)
	selector   = regexp.MustCompile(`\b((?:payonce|process)_[a-z_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"`)
)

// Every metric and label that the rules, their tests, the dashboard and the
// manual name is there, and the manual lists every metric of ours as what it is.
func TestEveryMetricExists(t *testing.T) {
	t.Parallel()
	families := expose(t).families()
	labels := func(name string) []string {
		names := []string{"job", "instance"} // Prometheus adds them
		if strings.HasSuffix(name, "_bucket") {
			names = append(names, "le")
		}
		for _, label := range families[name].GetMetric()[0].GetLabel() {
			names = append(names, label.GetName())
		}
		return names
	}
	var alerts strings.Builder
	for _, alert := range readRules(t).Groups[0].Rules {
		alerts.WriteString(alert.Expr)
	}
	var panels strings.Builder
	for _, queries := range readDashboard(t).queries() {
		panels.WriteString(strings.Join(queries, "\n"))
	}
	unitTests, err := os.ReadFile(ruleTestsFile)
	require.NoError(t, err)
	manual, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	for where, text := range map[string]string{
		rulesFile: alerts.String(), dashboardFile: panels.String(), ruleTestsFile: string(unitTests), "docs/observability.md": string(manual),
	} {
		named := metricName.FindAllString(text, -1)
		require.NotEmpty(t, named, where)
		for _, name := range named {
			require.NotNil(t, families[name], "%s names %s, which is not there", where, name)
		}
		for _, found := range selector.FindAllStringSubmatch(text, -1) {
			for _, label := range matcher.FindAllStringSubmatch(found[2], -1) {
				require.Contains(t, labels(found[1]), label[1], "%s: %s has no such label", where, found[0])
			}
		}
	}

	listed := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(payonce_[a-z_]+)`(?: \\{([a-z_, ]+)\\})? \\| (\\w+) \\| (.+) \\|$").
		FindAllStringSubmatch(string(manual), -1) {
		family := families[row[1]]
		require.Equal(t, strings.ToLower(family.GetType().String()), row[3], row[1])
		want := []string{}
		if row[2] != "" {
			want = strings.Split(row[2], ", ")
		}
		require.ElementsMatch(t, labels(row[1])[2:], want, "labels of %s", row[1])
		listed[row[1]] = row[4]
	}
	for name := range families {
		if strings.HasPrefix(name, "payonce_") && families[name].GetName() == name {
			require.NotEmpty(t, listed[name], "docs/observability.md does not list %s", name)
			require.True(t, strings.Contains(panels.String(), name) || strings.Contains(alerts.String(), name),
				"%s is on no panel and in no rule", name)
		}
	}
}

// Prometheus itself loads the rules, and has an answer to each of the dashboard's
// queries when it scrapes payonce.
func TestDashboardOnPrometheus(t *testing.T) {
	t.Parallel()
	e := expose(t)
	prometheus := start(t, e.server.Listener.Addr().String())
	counting, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for counting.Err() == nil {
			e.count(counting)
		}
	})
	defer running.Wait()
	defer stop()
	for title, queries := range readDashboard(t).queries() {
		for _, query := range queries {
			require.Eventually(t, func() bool { return prometheus.tells(query) }, time.Minute, 100*time.Millisecond,
				"panel %q stays empty: %s", title, query)
		}
	}
	require.False(t, prometheus.tells(`payonce_keys{state="made up"}`), "a query without an answer is seen")
	require.Eventually(t, func() bool { return prometheus.evaluated() == len(readRules(t).Groups[0].Rules) },
		time.Minute, 100*time.Millisecond)
}

// evaluated counts the rules that were evaluated without an error.
func (s server) evaluated() (healthy int) {
	s.t.Helper()
	var loaded struct {
		Groups []struct {
			Rules []struct {
				Health string `json:"health"`
			} `json:"rules"`
		} `json:"groups"`
	}
	s.get("/api/v1/rules", &loaded)
	for _, group := range loaded.Groups {
		for _, rule := range group.Rules {
			if rule.Health == "ok" {
				healthy++
			}
		}
	}
	return healthy
}

// server is a Prometheus of the test's own.
type server struct {
	t       *testing.T
	address string
}

func start(t *testing.T, target string) server {
	t.Helper()
	text, err := os.ReadFile("prometheus.yaml")
	require.NoError(t, err)
	here, err := filepath.Abs(rulesFile)
	require.NoError(t, err)
	config := strings.NewReplacer("15s", "1s", "[alerts.yaml]", "["+strconv.Quote(here)+"]", "127.0.0.1:8080", target).
		Replace(string(text))
	folder := t.TempDir()
	file := filepath.Join(folder, "prometheus.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	address, err := freeport.Address(t.Context())
	require.NoError(t, err)
	var log bytes.Buffer
	command := exec.CommandContext(t.Context(), installed(t, "prometheus"), "--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address, "--log.level=warn")
	command.Stderr = &log
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	s := server{t, address}
	require.Eventually(t, func() bool { return s.get("/api/v1/status/config", &struct{}{}) }, time.Minute, 50*time.Millisecond)
	return s
}

// get reads the data of an answer; false when there is none yet.
func (s server) get(path string, into any) bool {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.address+path, nil)
	require.NoError(s.t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode == http.StatusServiceUnavailable {
		return false // still starting
	}
	require.Equal(s.t, http.StatusOK, response.StatusCode, "%s: %s", path, body)
	require.NoError(s.t, json.Unmarshal(body, &struct {
		Data any `json:"data"`
	}{into}))
	return true
}

// tells reports whether a query has an answer that is a number.
func (s server) tells(query string) bool {
	s.t.Helper()
	var answer struct {
		Result []struct {
			Value [2]any `json:"value"`
		} `json:"result"`
	}
	if !s.get("/api/v1/query?query="+url.QueryEscape(query), &answer) {
		return false
	}
	for _, one := range answer.Result {
		value, err := strconv.ParseFloat(fmt.Sprint(one.Value[1]), 64)
		require.NoError(s.t, err)
		if !math.IsNaN(value) {
			return true
		}
	}
	return false
}
