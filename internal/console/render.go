package console

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/operator"
)

// pages are the templates of one language by name.
type pages map[string]*template.Template

func parsePages(l language, assets map[string]asset) (pages, error) {
	layout, err := template.New("layout").Funcs(functions(l, assets)).Option("missingkey=error").
		ParseFS(files, "pages/layout.html", "pages/parts.html")
	if err != nil {
		return nil, fmt.Errorf("read the console's pages: %w", err)
	}
	parsed := pages{}
	names, err := fs.Glob(files, "pages/*.html")
	if err != nil {
		return nil, fmt.Errorf("read the console's pages: %w", err)
	}
	for _, name := range names {
		short := strings.TrimSuffix(path.Base(name), ".html")
		if short == "layout" || short == "parts" {
			continue
		}
		own, err := layout.Clone()
		if err != nil {
			return nil, fmt.Errorf("read the console's page %s: %w", short, err)
		}
		if parsed[short], err = own.ParseFS(files, name); err != nil {
			return nil, fmt.Errorf("read the console's page %s: %w", short, err)
		}
	}
	return parsed, nil
}

func (p pages) render(out io.Writer, name string, content page) error {
	if err := p[name].ExecuteTemplate(out, "layout", content); err != nil {
		return fmt.Errorf("make the console's page %s: %w", name, err)
	}
	return nil
}

var errNoText = errors.New("there is no such text")

// functions are what the templates of a language may call.
func functions(l language, assets map[string]asset) template.FuncMap {
	return template.FuncMap{
		"lang": l.tag,
		"t": func(name string, args ...any) (string, error) {
			if _, ok := texts[name]; !ok {
				return "", fmt.Errorf("%w: %s", errNoText, name)
			}
			return l.text(name, args...), nil
		},
		// named is the text for a value from the database; one without a text
		// is shown as it is.
		"named": func(kind, value string) string {
			if found, ok := texts[kind+"."+value]; ok {
				return found[l]
			}
			return value
		},
		"other": func() string { return l.other().tag() },
		"asset": func(name string) string { return Root + "/assets/" + name + "?v=" + assets[name].version },
		"money": func(minor int64, currency string) string {
			return money.Money{Amount: minor, Currency: currency}.String()
		},
		"facts":   operator.Facts,
		"instant": func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") },
		"moment":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
		"precise": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") },
		"ago":     func(t, now time.Time) string { return l.text("ago", l.period(now.Sub(t))) },
		"until": func(t, now time.Time) string {
			if !t.After(now) {
				return l.text("due_now")
			}
			return l.text("in", l.period(t.Sub(now)))
		},
		"left":     func(t, now time.Time) int64 { return max(0, int64(t.Sub(now)/time.Second)) },
		"orderURL": orderURL,
		"keyURL":   keyURL,
		"keyURLOf": func(scope, key *string) string { return keyURL(*scope, *key) },
		"moneyOf": func(minor *int64, currency *string) string {
			return money.Money{Amount: *minor, Currency: *currency}.String()
		},
		"nowOf":     func(key *operator.Key) time.Time { return key.CreatedAt.Add(key.Age) },
		"movements": movements,
		"row":       func(it any, now time.Time) map[string]any { return map[string]any{"It": it, "Now": now} },
		"asking": func(kind, id, order, token string) map[string]string {
			return map[string]string{"Kind": kind, "ID": id, "Order": order, "Token": token}
		},
	}
}

// movementOf is a charge or a refund of an order.
type movementOf struct {
	operator.Movement

	Kind, Merchant string
}

// movements are all charges and refunds of an order.
func movements(order operator.Order) []movementOf {
	var all []movementOf
	for _, m := range append(slices.Clone(order.Charges), order.Refunds...) {
		kind := "charge"
		if m.RefundID != "" {
			kind = "refund"
		}
		all = append(all, movementOf{m, kind, order.Merchant})
	}
	return all
}

func orderURL(id string) string { return Root + "/order?" + url.Values{"id": {id}}.Encode() }

func keyURL(scope, key string) string {
	return Root + "/key?" + url.Values{"scope": {scope}, "key": {key}}.Encode()
}

// asset is a file that pages load.
type asset struct {
	content []byte
	kind    string
	version string
}

func readAssets() (map[string]asset, error) {
	kinds := map[string]string{
		".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}
	entries, err := files.ReadDir("assets")
	if err != nil {
		return nil, fmt.Errorf("read the console's assets: %w", err)
	}
	assets := map[string]asset{}
	for _, entry := range entries {
		content, err := files.ReadFile("assets/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read the console's assets: %w", err)
		}
		sum := sha256.Sum256(content)
		assets[entry.Name()] = asset{content, kinds[path.Ext(entry.Name())], hex.EncodeToString(sum[:6])}
	}
	return assets, nil
}

// asset answers with a file; its address changes with its content.
func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	found, ok := c.assets[mux.Vars(r)["name"]]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", found.kind)
	if r.URL.Query().Get("v") == found.version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(found.content)
}
