package console_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/console"
	"github.com/payonce/payonce/internal/pgtest"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestAccessCheck(t *testing.T) {
	t.Parallel()
	require.False(t, console.Access{}.Enabled())
	require.NoError(t, console.Access{}.Check())
	require.ErrorContains(t, console.Access{Password: "short"}.Check(), "shorter than 12 characters")
	require.NoError(t, console.Access{Password: "twelve chars"}.Check())
	require.ErrorContains(t, console.Access{UserHeader: "X-User"}.Check(), "--console-trusted-proxies")
	proxies, err := console.ParseProxies([]string{"10.0.0.0/8", " 192.0.2.7", "::1"})
	require.NoError(t, err)
	require.Equal(t, "[10.0.0.0/8 192.0.2.7/32 ::1/128]", fmt.Sprint(proxies))
	_, err = console.ParseProxies([]string{"proxy.local"})
	require.ErrorContains(t, err, `trusted proxy "proxy.local" is neither`)
}

func TestNobodyComesInWithoutThePassword(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.chargeInDoubt("pay-1", "order-1")
	guest := h.visitor()
	for _, path := range []string{"", "/", "/in-doubt", "/search?q=order-1", "/order?id=order-1", "/key?scope=shop&key=pay-1", "/upkeep"} {
		page := guest.get("/console" + path)
		require.Equal(t, "Log in", page.title(), path)
		require.NotContains(t, page.text(), "order-1", path)
	}
	// With a form token of their own, too.
	login := guest.get("/console/login")
	for _, action := range []string{"/console/ask", "/console/key"} {
		form := url.Values{"form_token": {fieldPattern.FindStringSubmatch(login.body)[2]}, "scope": {"shop"}, "key": {"pay-1"},
			"what": {"release"}, "reason": {"why"}, "confirm": {"yes"}}
		require.Equal(t, "Log in", guest.do(http.MethodPost, action, form).title())
	}
	require.Equal(t, "0", h.one(`SELECT count(*)::text FROM payments.journal WHERE event LIKE 'operator%'`))

	page := guest.submit(login, "/console/login", url.Values{"name": {"eve"}, "password": {"a password of teats"}})
	require.Equal(t, http.StatusForbidden, page.status)
	require.Contains(t, page.text(), "the password is not right")
	page = guest.submit(login, "/console/login", url.Values{"name": {"\x07"}, "password": {password}})
	require.Equal(t, http.StatusForbidden, page.status, "what is done is journalled under a name")
	for _, forged := range []string{"x", ".", "eyJuIjoiZXZlIiwidSI6OTk5OTk5OTk5OSwiaSI6IngifQ.AAAA", strings.Repeat("a", 5000)} {
		eve := h.visitor()
		eve.header.Set("Cookie", "payonce_console="+forged)
		require.Equal(t, "Log in", eve.get("/console").title(), forged)
	}
}

func TestLoginIsThrottled(t *testing.T) {
	t.Parallel()
	h := setup(t)
	guest := h.visitor()
	login := guest.get("/console/login")
	for range 5 {
		page := guest.submit(login, "/console/login", url.Values{"name": {"eve"}, "password": {"a guess that is wrong"}})
		require.Equal(t, http.StatusForbidden, page.status)
	}
	page := guest.submit(login, "/console/login", url.Values{"name": {"eve"}, "password": {password}})
	require.Equal(t, http.StatusTooManyRequests, page.status, "also with the right one")
	require.Contains(t, page.text(), "Too many attempts.")
}

func TestLogoutEndsTheSession(t *testing.T) {
	t.Parallel()
	h := setup(t)
	ann := h.ann()
	address, err := url.Parse(h.server.URL)
	require.NoError(t, err)
	stolen := h.visitor()
	stolen.client.Jar.SetCookies(address, ann.client.Jar.Cookies(address))
	require.Equal(t, "Overview", stolen.get("/console").title())
	require.Equal(t, "Log in", ann.submit(ann.get("/console"), "/console/logout", nil).title())
	require.Equal(t, "Log in", stolen.get("/console").title())
}

func TestLoginGoesWhereItWasAskedFor(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for next, want := range map[string]string{
		"/console/search?q=x": "/console/search?q=x", "//evil.example/console": "/console", "https://evil.example": "/console",
		"/v1/orders/x": "/console", "/consolex": "/console", `/\evil.example`: "/console", "": "/console", "/console/login": "/console",
	} {
		guest := h.visitor()
		login := guest.get("/console/login?" + url.Values{"next": {next}}.Encode())
		page := guest.submit(login, "/console/login", url.Values{"name": {"ann"}, "password": {password}})
		require.Equal(t, want, page.path, next)
	}
}

// Another site can make a browser send a form, and does not get anywhere.
func TestForgedForms(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.chargeInDoubt("pay-1", "order-1")
	ann := h.ann()
	form := ann.get("/console/in-doubt")
	for name, forge := range map[string]func() answered{
		"from another site": func() answered {
			ann.header.Set("Sec-Fetch-Site", "cross-site")
			return ann.submit(form, "/console/ask", nil)
		},
		"from a site beside it": func() answered {
			ann.header.Set("Sec-Fetch-Site", "same-site")
			return ann.submit(form, "/console/ask", nil)
		},
		"from another origin, by an old browser": func() answered {
			ann.header.Set("Origin", "https://evil.example")
			return ann.submit(form, "/console/ask", nil)
		},
		"without the token": func() answered { return ann.submit(form, "/console/ask", url.Values{"form_token": {""}}) },
		"with another's token": func() answered {
			token := fieldPattern.FindStringSubmatch(h.visitor().get("/console/login").body)[2]
			return ann.submit(form, "/console/ask", url.Values{"form_token": {token}})
		},
	} {
		ann.header = http.Header{}
		refused := forge()
		require.Equal(t, http.StatusForbidden, refused.status, name)
		require.Contains(t, refused.text(), "The request came from another site and was refused.", name)
	}
	require.Equal(t, "0", h.one(`SELECT count(*)::text FROM payments.journal WHERE event = 'operator_ask'`))
	ann.header = http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {h.server.URL}}
	require.Equal(t, http.StatusOK, ann.submit(form, "/console/ask", nil).status)
	require.Equal(t, "1", h.one(`SELECT count(*)::text FROM payments.journal WHERE event = 'operator_ask'`))
}

func TestHeadersAndCookies(t *testing.T) {
	t.Parallel()
	h := setup(t)
	ann := h.ann()
	for _, path := range []string{"/console", "/console/login", "/console/nothing", "/console/assets/console.css"} {
		header := ann.get(path).header
		policy := header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'")
		require.Contains(t, policy, "frame-ancestors 'none'")
		require.NotContains(t, policy, "unsafe")
		require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
		require.Equal(t, "no-store", header.Get("Cache-Control"), path)
	}
	asset := fieldAsset.FindString(ann.get("/console").body)
	require.Contains(t, ann.get(asset).header.Get("Cache-Control"), "immutable")
	require.Equal(t, http.StatusNotFound, ann.get("/console/assets/none").status)

	guest := h.visitor()
	guest.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	login := guest.get("/console/login")
	cookie := guest.submit(login, "/console/login", url.Values{"name": {"ann"}, "password": {password}}).header.Get("Set-Cookie")
	require.Regexp(t, `^payonce_console=[^;]+; Path=/; Max-Age=28800; HttpOnly; SameSite=Strict$`, cookie)

	// Reached by a name, hence through TLS: __Host- and Secure; over plain HTTP
	// there is no login.
	outside := h.visitor()
	outside.client.CheckRedirect = guest.client.CheckRedirect
	outside.client.Transport = asHost("console.example")
	login = outside.get("/console/login")
	require.Regexp(t, `^__Host-payonce_form=[^;]+; Path=/; HttpOnly; Secure; SameSite=Strict$`, login.header.Get("Set-Cookie"))
	outside.header.Set("Cookie", strings.Split(login.header.Get("Set-Cookie"), ";")[0])
	form := url.Values{"name": {"ann"}, "password": {password}}
	require.Regexp(t, `^__Host-payonce_console=[^;]+; Path=/; Max-Age=28800; HttpOnly; Secure; SameSite=Strict$`,
		outside.submit(login, "/console/login", form).header.Get("Set-Cookie"))
	outside.header.Set("Origin", "http://console.example")
	plain := outside.submit(login, "/console/login", form)
	require.Equal(t, http.StatusForbidden, plain.status)
	require.Contains(t, plain.text(), "This page came over plain HTTP")
	require.Empty(t, plain.header.Get("Set-Cookie"))
}

var fieldAsset = regexp.MustCompile(`/console/assets/console\.css\?v=[0-9a-f]+`)

// asHost sends each request with a Host of its own.
type asHost string

func (name asHost) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = string(name)
	return http.DefaultTransport.RoundTrip(r)
}

// A proxy in front names the person; nobody else may.
func TestAProxyNamesThePerson(t *testing.T) {
	t.Parallel()
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	h := setupWith(t, console.Access{UserHeader: "X-Forwarded-User", TrustedProxies: loopback}, pgtest.New(t))
	h.chargeInDoubt("pay-1", "order-1")
	v := h.visitor()
	page := v.get("/console")
	require.Equal(t, http.StatusForbidden, page.status)
	require.Contains(t, page.text(), "takes nobody who was not named by the proxy")
	for _, names := range [][]string{{""}, {"ann", "bob"}, {"a\tb"}, {strings.Repeat("x", 101)}} {
		v.header["X-Forwarded-User"] = names
		require.Equal(t, http.StatusForbidden, v.get("/console").status, names)
	}
	v.header.Set("X-Forwarded-User", "ann@example.com")
	page = v.submit(v.get("/console/in-doubt"), "/console/ask", nil)
	require.Contains(t, page.text(), "Signed in as ann@example.com")
	require.NotContains(t, page.text(), "Log out", "the proxy does that")
	require.Equal(t, "ann@example.com", h.one(`SELECT detail ->> 'actor' FROM payments.journal WHERE event = 'operator_ask'`))

	other := setupWith(t, console.Access{
		UserHeader: "X-Forwarded-User", TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	}, pgtest.New(t))
	eve := other.visitor()
	eve.header.Set("X-Forwarded-User", "ann")
	require.Equal(t, http.StatusForbidden, eve.get("/console").status, "from an address that is not the proxy's")
}
