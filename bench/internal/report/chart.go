package report

import (
	"fmt"
	"image/color"
	"math"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	chartWidth  = 18 * vg.Centimeter
	chartHeight = 10 * vg.Centimeter
)

// Line is a named row of points in a chart.
type Line struct {
	Name string
	X, Y []float64
}

// Chart is what LineChart and BarChart share.
type Chart struct {
	Title, X, Y string
	// LogX and LogY choose logarithmic axes.
	LogX, LogY bool
}

func (c Chart) new() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.Title.Padding = 3 * vg.Millimeter
	p.Add(plotter.NewGrid())
	if c.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	if c.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	return p
}

// WriteLines draws lines with marks into an SVG file.
func (c Chart) WriteLines(folder, file string, lines ...Line) error {
	p := c.new()
	for i, line := range lines {
		points := make(plotter.XYs, len(line.X))
		for j := range points {
			points[j] = plotter.XY{X: line.X[j], Y: line.Y[j]}
		}
		drawn, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return fmt.Errorf("draw %s of %s: %w", line.Name, file, err)
		}
		drawn.Color, marks.Color = plotutil.Color(i), plotutil.Color(i)
		drawn.Width, marks.Shape = 1.5, plotutil.Shape(i)
		p.Add(drawn, marks)
		p.Legend.Add(line.Name, drawn, marks)
	}
	p.Legend.Top, p.Legend.Left = true, true
	return c.save(p, folder, file)
}

// Percentiles are the points of a latency curve: x is 1/(1-quantile), so that
// each "nine" takes as much room as the one before.
func (s *Series) Percentiles(name string) Line {
	line := Line{Name: name}
	for _, quantile := range []float64{50, 75, 90, 95, 97.5, 99, 99.5, 99.9} {
		line.X = append(line.X, 1/(1-quantile/100))
		line.Y = append(line.Y, s.Quantile(quantile)/1e3)
	}
	return line
}

// WritePercentiles draws latency curves.
func (c Chart) WritePercentiles(folder, file string, lines ...Line) error {
	c.LogX = true
	p := c.new()
	p.X.Tick.Marker = plot.ConstantTicks{
		{Value: 2, Label: "p50"}, {Value: 10, Label: "p90"}, {Value: 20, Label: "p95"}, {Value: 100, Label: "p99"},
		{Value: 1000, Label: "p99.9"},
	}
	for i, line := range lines {
		points := make(plotter.XYs, len(line.X))
		for j := range points {
			points[j] = plotter.XY{X: line.X[j], Y: line.Y[j]}
		}
		drawn, err := plotter.NewLine(points)
		if err != nil {
			return fmt.Errorf("draw %s of %s: %w", line.Name, file, err)
		}
		drawn.Color, drawn.Width = plotutil.Color(i), 1.5
		p.Add(drawn)
		p.Legend.Add(line.Name, drawn)
	}
	p.Legend.Top, p.Legend.Left = true, true
	return c.save(p, folder, file)
}

// WriteBars draws one horizontal bar a name, longest at the bottom as given.
func (c Chart) WriteBars(folder, file string, names []string, values []float64) error {
	p := c.new()
	bars, err := plotter.NewBarChart(plotter.Values(values), 6*vg.Millimeter)
	if err != nil {
		return fmt.Errorf("draw %s: %w", file, err)
	}
	bars.Horizontal, bars.Color, bars.LineStyle.Width = true, plotutil.Color(2), 0
	p.Add(bars)
	labels := plotter.XYLabels{XYs: make(plotter.XYs, len(values)), Labels: make([]string, len(values))}
	highest := 0.0
	for i, value := range values {
		labels.XYs[i] = plotter.XY{X: value, Y: float64(i)}
		labels.Labels[i] = fmt.Sprintf(" %.2f", value)
		highest = math.Max(highest, value)
	}
	written, err := plotter.NewLabels(labels)
	if err != nil {
		return fmt.Errorf("label %s: %w", file, err)
	}
	for i := range written.TextStyle {
		written.TextStyle[i].YAlign = draw.YCenter
	}
	p.Add(written)
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, highest*1.12
	return c.save(p, folder, file)
}

func (c Chart) save(p *plot.Plot, folder, file string) error {
	if err := p.Save(chartWidth, chartHeight, filepath.Join(folder, file)); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
