package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/freeport"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/pspsim"
	"github.com/payonce/payonce/internal/stage"
)

// Journeys through the console of the program itself, in a real browser.
func TestJourneys(t *testing.T) {
	t.Parallel()
	program, err := stage.Build(t.Context(), t.TempDir())
	require.NoError(t, err)
	for name, journey := range map[string]func(t *testing.T, program string){
		"newcomer": newcomer, "operator": operatorInAConsole, "operator in a shell": operatorInAShell,
		"without JavaScript": withoutJavaScript, "live updates": liveUpdates, "keyboard": keyboardAlone,
		"accessibility": accessibility, "pictures": pictures,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			journey(t, program)
		})
	}
}

// running is a server as a process of its own, with a database of its own and
// the simulator.
type running struct {
	*stage.Server

	t         *testing.T
	program   string
	db        *pgtest.DB
	conn      *pgx.Conn
	simulator *stage.Simulator
	env       []string
}

// nowhere is an address that nobody listens on.
const nowhere = "http://127.0.0.1:1"

// serve starts `payonce serve` with the console on.
func serve(t *testing.T, program string) *running {
	t.Helper()
	db := pgtest.New(t)
	r := &running{t: t, program: program, db: db, conn: db.Conn(t)}
	require.NoError(t, payments.StoreAPIKey(t.Context(), r.conn, apiKey, "shop", ""))
	address, err := freeport.Address(t.Context())
	require.NoError(t, err)
	keys, err := simulatorKeys()
	require.NoError(t, err)
	// Notifications are lost: what is in doubt stays so until somebody asks.
	r.simulator, err = stage.NewSimulator(t.Context(), keys, nowhere)
	require.NoError(t, err)
	t.Cleanup(r.simulator.Close)
	r.env = append(r.simulator.Environment(nowhere), "PAYONCE_DATABASE_URL="+db.AppURL)
	r.Server, err = stage.NewServer(t.Context(), stage.ServerOptions{
		Binary: program, Args: []string{"serve"}, Address: address, Dir: t.TempDir(), Name: "serve",
		Environment: append(r.env, "PAYONCE_CONSOLE_PASSWORD="+password, "PAYONCE_CONSOLE_DATABASE_URL="+db.URL),
	})
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, r.Stop()) })
	return r
}

// charge sends what a client sends with curl, and returns the status.
func charge(t *testing.T, url, apiKey, key, body string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/charges", strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+apiKey)
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return response.StatusCode
}

func (r *running) charge(provider, key, orderID string) int {
	r.t.Helper()
	method := map[string]string{"wechat": `"method":"native",`}[provider]
	return charge(r.t, r.URL(), apiKey, key,
		fmt.Sprintf(`{"order_id":%q,"provider":%q,%s"amount":1050,"currency":"CNY","subject":"Tea"}`, orderID, provider, method))
}

// inDoubt leaves a charge in doubt: the money moved and the answer was lost. The
// server would ask again by itself in two seconds; it is made to wait.
func (r *running) inDoubt(key, orderID string) {
	r.t.Helper()
	require.NoError(r.t, r.simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "charge", Fault: "drop_after"}))
	require.NoError(r.t, r.simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "query", Fault: "drop_after"}))
	require.Equal(r.t, http.StatusGatewayTimeout, r.charge("alipay", key, orderID))
	_, err := r.conn.Exec(r.t.Context(), `
		UPDATE payments.charges SET due_at = pg_catalog.clock_timestamp() + interval '1 hour' WHERE order_id = $1`, orderID)
	require.NoError(r.t, err)
}

func (r *running) one(sql string, args ...any) (value string) {
	r.t.Helper()
	require.NoError(r.t, r.conn.QueryRow(r.t.Context(), sql, args...).Scan(&value))
	return value
}

// run runs the program as the owner of the schemas, as an operator does in a shell.
func (r *running) run(stdin string, args ...string) (output string, code int) {
	r.t.Helper()
	command := exec.CommandContext(r.t.Context(), r.program, args...)
	command.Env = append(r.env, "PAYONCE_DATABASE_URL="+r.db.URL, "PATH="+os.Getenv("PATH"))
	command.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil {
		var ended *exec.ExitError
		require.ErrorAs(r.t, err, &ended)
	}
	return out.String(), command.ProcessState.ExitCode()
}

// Somebody with the README alone: payonce dev, the README's charge, twice, its
// fault, and the story of the order in the console.
func newcomer(t *testing.T, program string) {
	t.Helper()
	sim, err := freeport.Address(t.Context())
	require.NoError(t, err)
	dir := t.TempDir()
	server, err := stage.NewServer(t.Context(), stage.ServerOptions{
		Binary: program, Args: []string{"dev", "--sim-listen", sim, "--data-dir", dir}, Dir: dir, Name: "dev",
		Environment: []string{"PAYONCE_DATABASE_URL=" + pgtest.New(t).URL},
	})
	require.NoError(t, err)
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	said, err := os.ReadFile(dir + "/dev.log")
	require.NoError(t, err)
	require.Contains(t, string(said), "The console, with the story of each order: "+server.URL()+"/console\n")
	require.Contains(t, string(said), "(any name, password payonce-in-dev)\n")

	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "<http://127.0.0.1:8080/console>")
	require.Contains(t, string(readme), "`payonce-in-dev`")
	// The README's own lines, at this server's addresses.
	shell := func(lines string) string {
		lines = strings.NewReplacer("127.0.0.1:8080", server.Address(), "127.0.0.1:9090", sim).Replace(lines)
		output, err := exec.CommandContext(t.Context(), "bash", "-ec", lines).CombinedOutput()
		require.NoError(t, err, "%s: %s", lines, output)
		return string(output)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	line := func(with string) string {
		for _, block := range blocks {
			if strings.Contains(block[1], with) {
				return block[1]
			}
		}
		require.Fail(t, "not in the README", with)
		return ""
	}
	pay := line("/v1/charges")
	require.NotContains(t, shell(pay), "Idempotency-Replayed")
	require.Contains(t, shell(pay), "Idempotency-Replayed: true")
	shell(line("/faults"))
	require.Contains(t, shell(strings.NewReplacer("my-first-payment", "my-second-payment", "order-1", "order-2").Replace(pay)),
		"201 Created", "the connection is cut after the money moved, and the provider is asked")
	b := newBrowser(t)
	b.open(server.URL() + "/console")
	require.Equal(t, "Log in", b.text("h1"))
	b.logIn("Nina", "payonce-in-dev")
	require.Equal(t, "Overview", b.text("h1"))
	require.Equal(t, "3", b.text("#f-requests"))
	require.Equal(t, "1", b.text("#f-replays"))
	require.Equal(t, "1", b.text("#f-prevented"))

	b.fill("#q", "order-1")
	b.submit("form[role=search] button")
	require.Equal(t, "Search", b.text("h1"))
	b.submit("main a[href*='/console/order']")
	require.Equal(t, "Order order-1", b.text("h1"))
	for start := time.Now(); !strings.Contains(b.text(".about"), "paid"); time.Sleep(100 * time.Millisecond) {
		require.Less(t, time.Since(start), patience, "Alipay's notification arrives")
		b.do(chromedp.Reload())
	}
	story := b.text(".timeline")
	position := 0
	for _, event := range []string{
		"Key claimed", "Provider called to charge", "Notification from the provider", "Charge succeeded", "Confirmation written",
	} {
		require.Contains(t, story[position:], event, "in this order")
		position += strings.Index(story[position:], event)
	}
	require.Contains(t, story, "Response stored")
	require.NotContains(t, b.text("body"), "sk_dev_payonce")
	b.quiet()
}

// An operator finds a payment in doubt in the console, has the provider asked
// again, and reads the answer; another one the provider does not know, and it is
// ended by hand.
func operatorInAConsole(t *testing.T, program string) {
	t.Helper()
	r := serve(t, program)
	r.inDoubt("pay-1", "order-1")
	r.inDoubt("pay-2", "order-2")

	b := newBrowser(t)
	b.open(r.URL() + "/console")
	b.logIn("Ann", password)
	require.Equal(t, "2", b.text("#f-in-doubt"))
	b.submit("nav a[href='/console/in-doubt']")
	require.Contains(t, b.text("main"), "order-1")
	b.submit("form:has(input[value='order-1']) button")
	require.Equal(t, "Order order-1", b.text("h1"))
	require.Contains(t, b.text(".notice"), "The provider answered, and its answer is recorded.")
	require.Contains(t, b.text(".timeline"), "A person asked the provider again")
	require.Contains(t, b.text(".timeline"), "actor Ann")
	require.Equal(t, "completed", r.one(`SELECT state FROM guard.inspect(p_scope => 'shop', p_key => 'pay-1')`))

	b.submit("nav a[href='/console/in-doubt']")
	require.NotContains(t, b.text("main"), "order-1")
	require.NoError(t, r.simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "query", Fault: "drop_after", Times: 1000}))
	b.submit("form:has(input[value='order-2']) button")
	require.Contains(t, b.text(".notice"), "The provider did not tell.")
	b.submit("main td a[href*='/console/key']")
	require.Equal(t, "Key pay-2", b.text("h1"))
	b.do(chromedp.Click(css("input[value=moved]")))
	b.fill("#trade_no", "T4711")
	b.fill("#reason", "seen in Alipay's console, ticket 4711")
	b.do(chromedp.Click(css("#confirm")))
	b.submit("button.grave")
	require.Contains(t, b.text(".notice"), "Recorded as succeeded.")
	require.Contains(t, b.text(".timeline"), "seen in Alipay's console, ticket 4711")
	require.Equal(t, "Ann", r.one(`SELECT actor FROM guard.operator_log`))
	b.submit("nav a[href='/console']")
	require.Equal(t, "0", b.text("#f-in-doubt"))
	require.Equal(t, http.StatusCreated, r.charge("alipay", "pay-2", "order-2"), "the client's retry gets the stored answer")
	require.Len(t, r.simulator.Ledger(), 2, "no money moved by hand")
	b.quiet()
}

// The same in a shell.
func operatorInAShell(t *testing.T, program string) {
	t.Helper()
	r := serve(t, program)
	r.inDoubt("pay-1", "order-1")
	output, code := r.run("", "keys", "list", "--state", "in_doubt")
	require.Zero(t, code, output)
	require.Regexp(t, `(?m)^shop +pay-1 +in_doubt `, output)
	output, code = r.run("", "orders", "show", "order-1")
	require.Zero(t, code, output)
	require.Contains(t, output, "charge_in_doubt")
	_, err := r.conn.Exec(t.Context(), `UPDATE payments.charges SET due_at = pg_catalog.clock_timestamp()`)
	require.NoError(t, err)
	// The server asks by itself, too: whoever comes first.
	output, code = r.run("", "reconcile")
	require.Zero(t, code, output)
	require.Eventually(t, func() bool {
		output, _ = r.run("", "keys", "list", "--state", "in_doubt")
		return output == "no such keys\n"
	}, patience, 100*time.Millisecond)
	output, code = r.run("", "orders", "show", "order-1")
	require.Zero(t, code, output)
	require.Contains(t, output, "response_stored")

	require.NoError(t, r.simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "query", Fault: "drop_after", Times: 1000}))
	r.inDoubt("pay-2", "order-2")
	output, code = r.run("yes\n", "keys", "resolve", "shop", "pay-2", "--moved", "--trade-no", "T4711",
		"--reason", "seen in Alipay's console, ticket 4711", "--actor", "Ann")
	require.Zero(t, code, output)
	require.Contains(t, output, "of order order-2 is succeeded")
	require.Equal(t, http.StatusCreated, r.charge("alipay", "pay-2", "order-2"), "the client's retry gets the stored answer")
	require.Len(t, r.simulator.Ledger(), 2)
}

// Without JavaScript everything works: a person finds, asks, ends and logs out.
func withoutJavaScript(t *testing.T, program string) {
	t.Helper()
	r := serve(t, program)
	r.inDoubt("pay-1", "order-1")
	b := newBrowser(t)
	b.withoutScripts()
	b.open(r.URL() + "/console/search?q=pay-1")
	b.logIn("Ann", password)
	require.Equal(t, "Search", b.text("h1"), "where the login was asked for")
	require.Contains(t, b.text("main"), "pay-1")
	b.submit("nav a[href='/console']")
	require.Equal(t, "Refresh", b.text("a.refresh"), "instead of live updates")
	b.submit("nav a[href='/console/in-doubt']")
	b.submit("td form button")
	require.Contains(t, b.text(".notice"), "The provider answered")
	b.submit("a[hreflang]")
	require.Equal(t, "订单 order-1", b.text("h1"))
	b.submit(".person button")
	require.Equal(t, "登录", b.text("h1"))
	b.quiet()
}

// With JavaScript a lease counts down, and figures and keys come by themselves,
// until they are paused.
func liveUpdates(t *testing.T, program string) {
	t.Helper()
	r := serve(t, program)
	b := newBrowser(t)
	b.open(r.URL() + "/console")
	b.logIn("Ann", password)
	require.Equal(t, "0", b.text("#f-requests"))
	require.Equal(t, "claimed", r.one(`
		SELECT outcome FROM guard.claim(p_scope => 'shop', p_key => 'held-1', p_request_path => 'POST /v1/charges',
		       p_request_hash => pg_catalog.sha256('x'), p_lease => '1 hour')`))
	require.Equal(t, http.StatusCreated, r.charge("alipay", "pay-1", "order-1"))
	b.eventually("#f-requests", "1")
	b.eventually("main", "held-1")
	first := b.text("[data-left]")
	require.Regexp(t, `^3[56]\d\d s$`, first)
	for start := time.Now(); b.text("[data-left]") == first; time.Sleep(100 * time.Millisecond) {
		require.Less(t, time.Since(start), patience, "the lease counts down")
	}

	require.Equal(t, "Pause updates", b.text("button.pause"))
	b.do(chromedp.Click(css("button.pause")))
	require.Equal(t, "Resume updates", b.text("button.pause"))
	require.Equal(t, http.StatusCreated, r.charge("alipay", "pay-2", "order-2"))
	require.Equal(t, "1", b.text("#f-requests"), "paused")
	b.do(chromedp.Click(css("button.pause")))
	b.eventually("#f-requests", "2")
	b.quiet()
}

// With the keyboard alone: past the navigation, through a form, to its faults.
func keyboardAlone(t *testing.T, program string) {
	t.Helper()
	r := serve(t, program)
	r.inDoubt("pay-1", "order-1")
	b := newBrowser(t)
	b.open(r.URL() + "/console/key?scope=shop&key=pay-1")
	for range 3 {
		b.tab()
	}
	focus := `(() => { const e = document.activeElement; return e.id || e.className || e.textContent; })()`
	b.do(chromedp.Focus(css("#name")))
	b.press("Ann")
	b.tab()
	require.Equal(t, "password", eval[string](b, focus))
	b.press(password)
	_, err := chromedp.RunResponse(b.ctx, chromedp.KeyEvent(kb.Enter))
	require.NoError(t, err)
	require.Equal(t, "Key pay-1", b.text("h1"))

	b.tab()
	require.Equal(t, "skip", eval[string](b, focus))
	require.GreaterOrEqual(t, eval[float64](b, `document.activeElement.getBoundingClientRect().left`), 0.0, "it can be seen")
	b.press(kb.Enter)
	require.Equal(t, "content", eval[string](b, focus))
	var way []string
	for len(way) < 12 && !slices.Contains(way, "grave") {
		b.tab()
		way = append(way, eval[string](b, focus))
		require.NotEqual(t, "none", eval[string](b, `getComputedStyle(document.activeElement).outlineStyle`), "the focus on %s can be seen", way[len(way)-1])
	}
	require.Subset(t, way, []string{"order-1", "trade_no", "code", "reason", "confirm", "grave"})

	// The browser's own checks are in the way of a form that is not filled in; the
	// server's faults get the focus.
	b.script(`document.querySelector("main form").noValidate = true`)
	b.submit("button.grave")
	require.Equal(t, "problems", eval[string](b, focus))
	require.Contains(t, b.text("#problems"), "Give a reason")
	b.quiet()
}

// Every page, in both languages and both colour schemes, has no fault that axe
// finds, and fits a narrow screen.
func accessibility(t *testing.T, program string) {
	t.Helper()
	r := serve(t, program)
	r.inDoubt("pay-1", "order-1")
	require.Equal(t, http.StatusCreated, r.charge("alipay", "pay-2", "order-2"))
	for key, lease := range map[string]string{"held-1": "1 hour", "other": "1 microsecond"} {
		require.Equal(t, "claimed", r.one(`
			SELECT outcome FROM guard.claim(p_scope => 'shop', p_key => $1, p_request_path => 'POST /orders',
			       p_request_hash => pg_catalog.sha256('x'), p_lease => $2::text::interval)`, key, lease))
	}
	_, err := r.conn.Exec(t.Context(), `
		SELECT payments.apply_notification(p_provider => 'alipay', p_event_key => 'webhook:1', p_event => 'paid',
		       p_order_id => 'nobodys', p_trade_no => 'T9', p_amount => 1050, p_currency => 'CNY', p_refund_id => NULL,
		       p_refunded => NULL, p_refunded_total => NULL, p_code => NULL)`)
	require.NoError(t, err)

	b := newBrowser(t)
	b.open(r.URL() + "/console/login")
	b.looksWell("login")
	b.fill("#name", "Ann")
	b.fill("#password", "wrong")
	b.submit("main form button")
	require.Contains(t, b.text(".problem"), "the password is not right")
	b.looksWell("a login that failed")
	b.logIn("Ann", password)

	for _, language := range []string{"en", "zh"} {
		for _, path := range []string{
			"", "/in-doubt", "/order?id=order-1", "/order?id=order-2", "/key?scope=shop&key=pay-1", "/key?scope=shop&key=other",
			"/key?scope=shop&key=held-1", "/search", "/search?q=pay", "/search?q=order-1", "/search?q=none", "/upkeep", "/nothing",
		} {
			separator := "?"
			if strings.Contains(path, "?") {
				separator = "&"
			}
			b.open(r.URL() + "/console" + path + separator + "lang=" + language)
			b.looksWell(language + " " + path)
		}
		b.open(r.URL() + "/console/key?scope=shop&key=pay-1")
		b.script(`document.querySelector("main form").noValidate = true`)
		b.submit("button.grave")
		b.looksWell(language + " a form with faults")
	}
	b.quiet()

	// Proof that it would be told: the page without its language and with a text
	// that cannot be read.
	b.open(r.URL() + "/console")
	b.script(`document.documentElement.lang = ""; document.querySelector("h1").style.color = "#888"; document.querySelector("h1").style.background = "#999"`)
	var told []string
	for _, v := range b.violations() {
		told = append(told, v.ID)
	}
	require.Subset(t, told, []string{"html-has-lang", "color-contrast"})
}

// looksWell holds that axe finds no fault in the page in either scheme, and that
// it needs no scrolling sideways at 320 CSS pixels (WCAG 2.2, 1.4.10).
func (b *browser) looksWell(name string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, v := range b.violations() {
			told, err := json.MarshalIndent(v, "", "  ")
			require.NoError(b.t, err)
			b.t.Errorf("axe found a fault in %s, %s: %s", name, scheme, told)
		}
	}
	b.do(chromedp.EmulateViewport(320, 640))
	assert.Empty(b.t, eval[[]string](b, `document.documentElement.scrollWidth <= 320 ? [] :
		[...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, .skip") && e.getBoundingClientRect().right > 320)
			.map((e) => e.outerHTML.slice(0, 200))`), "%s on a narrow screen", name)
	b.do(chromedp.EmulateViewport(1200, 800))
}
