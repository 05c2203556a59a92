package console_test

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the pictures of the READMEs, docs/images, anew")

// The pictures in the READMEs show pages with real data. They are taken in every
// run, and written with -update.
func pictures(t *testing.T, program string) {
	t.Helper()
	r := serve(t, program)
	for _, orderID := range []string{"tea-1001", "tea-1002", "tea-1003"} {
		for range 2 {
			require.Equal(t, http.StatusCreated, r.charge("alipay", "pay-"+orderID, orderID))
		}
	}
	require.Equal(t, http.StatusCreated, r.charge("wechat", "pay-tea-1004", "tea-1004"))
	require.Equal(t, http.StatusUnprocessableEntity, r.charge("alipay", "pay-tea-1003", "tea-1005"), "another request")
	for _, orderID := range []string{"tea-1006", "tea-1007"} {
		r.inDoubt("pay-"+orderID, orderID)
	}
	for key, lease := range map[string]string{"pay-tea-1008": "47 seconds", "pay-tea-1009": "58 seconds"} {
		require.Equal(t, "claimed", r.one(`
			SELECT outcome FROM guard.claim(p_scope => 'shop', p_key => $1, p_request_path => 'POST /v1/charges',
			       p_request_hash => pg_catalog.sha256('x'), p_lease => $2::text::interval)`, key, lease))
	}
	b := newBrowser(t)
	b.open(r.URL() + "/console")
	b.logIn("Ann", password)
	b.open(r.URL() + "/console/in-doubt")
	b.submit("form:has(input[value='tea-1006']) button")
	for _, language := range []string{"en", "zh"} {
		for _, p := range []struct {
			name, path, scheme string
			height             int64
		}{
			{"overview", "", "light", 600}, {"in-doubt", "/in-doubt", "dark", 520}, {"order", "/order?id=tea-1006", "light", 830},
		} {
			b.scheme(p.scheme)
			b.open(r.URL() + "/console/login?next=/console&lang=" + language)
			b.open(r.URL() + "/console" + p.path)
			taken := fewColours(t, b.picture(1200, p.height))
			require.Greater(t, len(taken), 5_000, "it shows something")
			if *update && (language == "en" || p.name != "in-doubt") {
				file := filepath.Join("../../docs/images", "console-"+p.name+"."+language+".png")
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
				require.NoError(t, os.WriteFile(file, taken, 0o644))
			}
		}
	}
}

// fewColours makes a PNG small: no more than its 256 commonest colours.
func fewColours(t *testing.T, content []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(content))
	require.NoError(t, err)
	number := map[color.Color]int{}
	bounds := full.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			number[full.At(x, y)]++
		}
	}
	palette := make(color.Palette, 0, len(number))
	for c := range number {
		palette = append(palette, c)
	}
	slices.SortFunc(palette, func(a, b color.Color) int { return number[b] - number[a] })
	small := image.NewPaletted(bounds, palette[:min(256, len(palette))])
	draw.Draw(small, bounds, full, bounds.Min, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	require.NoError(t, encoder.Encode(&out, small))
	return out.Bytes()
}
