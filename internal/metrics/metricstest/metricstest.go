// Package metricstest reads what /metrics says, for tests.
package metricstest

import (
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Scraped is what /metrics said.
type Scraped struct {
	t        testing.TB
	families map[string]*dto.MetricFamily
}

// Parse reads Prometheus' text format.
func Parse(t testing.TB, text string) Scraped {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("read metrics: %v", err)
	}
	return Scraped{t, families}
}

// Value is the sum of all series of payonce_NAME that have these labels: name,
// value, name, … A histogram counts with its observations.
func (s Scraped) Value(name string, labels ...string) float64 {
	s.t.Helper()
	sum := 0.0
	for _, metric := range s.families["payonce_"+name].GetMetric() {
		have := map[string]string{}
		for _, label := range metric.GetLabel() {
			have[label.GetName()] = label.GetValue()
		}
		matches := true
		for i := 0; i < len(labels); i += 2 {
			value, ok := have[labels[i]]
			if !ok {
				s.t.Fatalf("payonce_%s has no label %s", name, labels[i])
			}
			matches = matches && value == labels[i+1]
		}
		if matches {
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() +
				float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// Has tells whether there is any series of payonce_NAME.
func (s Scraped) Has(name string) bool { return s.families["payonce_"+name] != nil }

// Names lists all metrics that were there.
func (s Scraped) Names() []string {
	names := make([]string, 0, len(s.families))
	for name := range s.families {
		names = append(names, name)
	}
	return names
}
