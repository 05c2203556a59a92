// Package report keeps what a run of the benchmark measured, as one JSON file,
// and writes it as tables, charts and Go benchmark lines.
package report

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/payonce/payonce/bench/internal/load"
)

// FileName is the name of a run's JSON in its folder.
const FileName = "result.json"

// Result is one run.
type Result struct {
	Started  time.Time         `json:"started"`
	Took     string            `json:"took"`
	Scale    float64           `json:"scale"`
	Machine  map[string]string `json:"machine"`
	Settings map[string]string `json:"settings"`
	Series   []Series          `json:"series"`
	Figures  []Figure          `json:"figures"`
	Targets  []Target          `json:"targets"`
}

// Series is one operation measured under one set of conditions.
type Series struct {
	// Experiment is the part of the suite: http, floor, peers, growth, purge, ceiling.
	Experiment string `json:"experiment"`
	Operation  string `json:"operation"`
	// Clients, RTT and Keys are the conditions, where they vary.
	Clients int    `json:"clients,omitempty"`
	RTT     string `json:"rtt,omitempty"`
	Keys    int64  `json:"keys,omitempty"`
	// Offered is the rate of scheduled calls a second; zero: as fast as they go.
	Offered     float64      `json:"offered_per_second,omitempty"`
	Repetitions []Repetition `json:"repetitions"`
	// Histogram holds all repetitions' latencies in nanoseconds, in
	// HdrHistogram's V2 compressed encoding, base64.
	Histogram string `json:"histogram"`

	merged *hdrhistogram.Histogram
}

// Repetition sums up one slice. Latencies are in microseconds.
type Repetition struct {
	Count     int64   `json:"count"`
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_us"`
	P95       float64 `json:"p95_us"`
	P99       float64 `json:"p99_us"`
	P999      float64 `json:"p999_us"`
	Max       float64 `json:"max_us"`
}

// Figure is one number that is not a latency.
type Figure struct {
	Experiment string  `json:"experiment"`
	Name       string  `json:"name"`
	Value      float64 `json:"value"`
	Unit       string  `json:"unit"`
	// Note says where the number comes from, where that is not plain.
	Note string `json:"note,omitempty"`
}

// Target is a bound that the run was held against.
type Target struct {
	Name string `json:"name"`
	// Bound is the limit; AtLeast tells its direction.
	Bound   float64 `json:"bound"`
	AtLeast bool    `json:"at_least,omitempty"`
	Got     float64 `json:"got"`
	Unit    string  `json:"unit"`
}

// Holds tells whether the bound is kept.
func (t Target) Holds() bool {
	if t.AtLeast {
		return t.Got >= t.Bound
	}
	return t.Got <= t.Bound
}

// Condition describes under what a series was measured.
type Condition struct {
	Experiment string
	Clients    int
	RTT        string
	Keys       int64
	Offered    float64
}

// NewSeries sums the slices of one operation up.
func NewSeries(condition Condition, operation string, samples []load.Sample) (Series, error) {
	s := Series{
		Experiment: condition.Experiment, Operation: operation, Clients: condition.Clients, RTT: condition.RTT,
		Keys: condition.Keys, Offered: condition.Offered, merged: load.NewHistogram(),
	}
	for _, sample := range samples {
		h := sample.Histogram
		s.Repetitions = append(s.Repetitions, Repetition{
			Count: h.TotalCount(), PerSecond: sample.Rate(), P50: micros(h, 50), P95: micros(h, 95), P99: micros(h, 99),
			P999: micros(h, 99.9), Max: float64(h.Max()) / 1e3,
		})
		s.merged.Merge(h)
	}
	encoded, err := s.merged.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return Series{}, fmt.Errorf("encode the histogram of %s: %w", operation, err)
	}
	s.Histogram = base64.StdEncoding.EncodeToString(encoded)
	return s, nil
}

func micros(h *hdrhistogram.Histogram, quantile float64) float64 {
	return float64(h.ValueAtQuantile(quantile)) / 1e3
}

// Quantile is a latency over all repetitions, in microseconds; quantile is 0 to
// 100.
func (s *Series) Quantile(quantile float64) float64 { return micros(s.merged, quantile) }

// Merged is the histogram over all repetitions.
func (s *Series) Merged() *hdrhistogram.Histogram { return s.merged }

// Count is the number of calls.
func (s *Series) Count() int64 { return s.merged.TotalCount() }

// PerSecond is the median rate of answered calls.
func (s *Series) PerSecond() float64 {
	return Median(s.each(func(r Repetition) float64 { return r.PerSecond }))
}

func (s *Series) each(value func(Repetition) float64) []float64 {
	values := make([]float64, 0, len(s.Repetitions))
	for _, repetition := range s.Repetitions {
		values = append(values, value(repetition))
	}
	return values
}

// P50 is the median of a repetition.
func P50(r Repetition) float64 { return r.P50 }

// P95 is the 95th percentile of a repetition.
func P95(r Repetition) float64 { return r.P95 }

// P999 is the 99.9th percentile of a repetition.
func P999(r Repetition) float64 { return r.P999 }

// P99 is the 99th percentile of a repetition.
func P99(r Repetition) float64 { return r.P99 }

// PerSecond is the rate of a repetition.
func PerSecond(r Repetition) float64 { return r.PerSecond }

// Ratio is the median, over the repetitions, of one operation's value divided
// by the other's of the same repetition: a disturbance that meets both cancels
// out, and one that meets one of them is outvoted.
func Ratio(of, to *Series, value func(Repetition) float64) float64 {
	return paired(of, to, value, func(a, b float64) float64 { return a / b })
}

// Added is the median, over the repetitions, of the difference of two
// operations' values in the same repetition.
func Added(of, to *Series, value func(Repetition) float64) float64 {
	return paired(of, to, value, func(a, b float64) float64 { return a - b })
}

func paired(of, to *Series, value func(Repetition) float64, join func(a, b float64) float64) float64 {
	a, b := of.each(value), to.each(value)
	joined := make([]float64, min(len(a), len(b)))
	for i := range joined {
		joined[i] = join(a[i], b[i])
	}
	return Median(joined)
}

// Median of values; 0 for none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Find returns the series of an operation under a condition, whose Offered is
// not looked at.
func (r *Result) Find(condition Condition, operation string) (*Series, error) {
	for i := range r.Series {
		s := &r.Series[i]
		if s.Experiment == condition.Experiment && s.Operation == operation && s.Clients == condition.Clients &&
			s.RTT == condition.RTT && s.Keys == condition.Keys {
			return s, nil
		}
	}
	return nil, fmt.Errorf("the run has no %s/%s (clients %d, rtt %q, keys %d)",
		condition.Experiment, operation, condition.Clients, condition.RTT, condition.Keys)
}

// Figure returns a figure by its experiment and name.
func (r *Result) Figure(experiment, name string) (Figure, bool) {
	for _, f := range r.Figures {
		if f.Experiment == experiment && f.Name == name {
			return f, true
		}
	}
	return Figure{}, false
}

// Name names the run by its day and its machine: 2026-12-01-amd-epyc-2-cores.
func (r *Result) Name() string {
	words := strings.FieldsFunc(strings.ToLower(r.Machine["cpu"]+" "+r.Machine["cores"]+" cores"), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
	return r.Started.Format(time.DateOnly) + "-" + strings.Join(words, "-")
}

// Write stores the run in a folder, which is made.
func (r *Result) Write(folder string) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("make the folder of the results: %w", err)
	}
	encoded, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("encode the results: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, FileName), append(encoded, '\n'), 0o600); err != nil {
		return fmt.Errorf("store the results: %w", err)
	}
	lines, err := os.Create(filepath.Join(folder, LinesFile)) //nolint:gosec // the caller's own folder
	if err != nil {
		return fmt.Errorf("store the benchmark lines: %w", err)
	}
	return errors.Join(r.writeLines(lines), lines.Close())
}

// Read loads a run from its folder or file.
func Read(path string) (*Result, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, FileName)
	}
	encoded, err := os.ReadFile(path) //nolint:gosec // the caller's own file
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	var r Result
	if err := json.Unmarshal(encoded, &r); err != nil {
		return nil, fmt.Errorf("read results of %s: %w", path, err)
	}
	if len(r.Series) == 0 {
		return nil, fmt.Errorf("read results of %s: %w", path, errors.New("it holds no series"))
	}
	return &r, r.decode()
}

func (r *Result) decode() error {
	for i := range r.Series {
		raw, err := base64.StdEncoding.DecodeString(r.Series[i].Histogram)
		if err != nil {
			return fmt.Errorf("decode the histogram of %s: %w", r.Series[i].Operation, err)
		}
		if r.Series[i].merged, err = hdrhistogram.Decode(raw); err != nil {
			return fmt.Errorf("decode the histogram of %s: %w", r.Series[i].Operation, err)
		}
	}
	return nil
}

// Add takes over what another part of the run measured.
func (r *Result) Add(other *Result) {
	r.Series = append(r.Series, other.Series...)
	r.Figures = append(r.Figures, other.Figures...)
	r.Targets = append(r.Targets, other.Targets...)
}

// Missed lists the targets that do not hold, worst first.
func (r *Result) Missed() []Target {
	missed := slices.DeleteFunc(slices.Clone(r.Targets), Target.Holds)
	slices.SortFunc(missed, func(a, b Target) int { return cmp.Compare(b.excess(), a.excess()) })
	return missed
}

func (t Target) excess() float64 {
	if t.AtLeast {
		return t.Bound / t.Got
	}
	return t.Got / t.Bound
}

// Of lists the series of an experiment, in the order in which they were measured.
func (r *Result) Of(experiment string) []*Series {
	var found []*Series
	for i := range r.Series {
		if r.Series[i].Experiment == experiment {
			found = append(found, &r.Series[i])
		}
	}
	return found
}
