package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// patience is how long a page may take; a machine under load is slow.
const patience = 90 * time.Second

// browser is a tab of a real browser.
type browser struct {
	t   *testing.T
	ctx context.Context // chromedp's tab is a context

	mu         sync.Mutex
	complaints []string
}

// chromium is the first browser of its kin that is installed.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium is installed; install it: scripts/install-test-needs.sh")
	return ""
}

// newBrowser starts a browser with a profile of its own. What its console says
// of errors and of breaches of the content security policy fails the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.WindowSize(1200, 800), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("lang", "en-US"), chromedp.Flag("hide-scrollbars", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	// The test's own context ends before its cleanup, in which the browser is closed.
	allocated, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	ctx, closeTab := chromedp.NewContext(allocated)
	t.Cleanup(func() {
		closeTab()
		stop()
	})
	b := &browser{t: t, ctx: ctx}
	// This starts the browser, which lives as long as this context.
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		switch event := event.(type) {
		case *log.EventEntryAdded:
			// A page that is refused is told of with its status, as it should be.
			if event.Entry.Level == log.EntryLevelError && event.Entry.Source != log.EntrySourceNetwork {
				b.complain(event.Entry.Text)
			}
		case *runtime.EventExceptionThrown:
			b.complain(event.ExceptionDetails.Text)
		}
	}))
	return b
}

func (b *browser) complain(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, text)
}

// quiet holds that the browser had nothing to complain about.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.complaints)
}

// step is what is done in a page.
type step = chromedp.Action[chromedp.Void]

// css finds an element.
type css = chromedp.CSS

func (b *browser) do(steps ...step) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...))
}

// read is something that the page says.
func read[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	require.NoError(b.t, err)
	return result
}

// command is one of the browser's protocol.
func command[P, R any](b *browser, cmd cdp.Command[P, R], params P) R {
	b.t.Helper()
	return read(b, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, cmd, params) })
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// submit clicks on what leads to another page, and waits for that.
func (b *browser) submit(selector string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	_, err := chromedp.RunResponse(ctx, chromedp.Click(css(selector)))
	require.NoError(b.t, err, selector)
}

func (b *browser) fill(selector, text string) {
	b.t.Helper()
	b.do(chromedp.Focus(css(selector)))
	b.script(`document.activeElement.select()`)
	b.press(text)
}

// text is what a person reads in an element; empty where there is none. It is
// read in one go: live pages replace their elements.
func (b *browser) text(selector string) string {
	b.t.Helper()
	quoted, err := json.Marshal(selector)
	require.NoError(b.t, err)
	return strings.Join(strings.Fields(eval[string](b, `(document.querySelector(`+string(quoted)+`) || {innerText: ""}).innerText`)), " ")
}

// eventually waits until an element says something.
func (b *browser) eventually(selector, want string) {
	b.t.Helper()
	var text string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if text = b.text(selector); strings.Contains(text, want) {
			return
		}
	}
	require.Contains(b.t, text, want, "%s after %s", selector, patience)
}

// eval runs a script in the page.
func eval[T any](b *browser, script string) T {
	b.t.Helper()
	return read(b, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// script runs one for what it does.
func (b *browser) script(text string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](text))
}

// press presses a key wherever the focus is.
func (b *browser) press(key string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(key))
}

// withoutScripts turns JavaScript off.
func (b *browser) withoutScripts() {
	b.t.Helper()
	command(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

// scheme is a person's choice of colours, light or dark.
func (b *browser) scheme(name string) {
	b.t.Helper()
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

// logIn logs in where the login page is open.
func (b *browser) logIn(name, password string) {
	b.t.Helper()
	b.fill("#name", name)
	b.fill("#password", password)
	b.submit("main form button")
}

// axe is the accessibility checker's source.
var axe = sync.OnceValues(func() (string, error) {
	path, err := exec.Command("../../scripts/axe.sh").Output()
	if err != nil {
		return "", fmt.Errorf("install axe-core: %w", err)
	}
	source, err := os.ReadFile(strings.TrimSpace(string(path)))
	return string(source), err
})

// violation is a rule of accessibility that a page breaks.
type violation struct {
	ID     string `json:"id"`
	Impact string `json:"impact"`
	Help   string `json:"help"`
	Nodes  []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

// violations are the faults that axe finds in the page.
func (b *browser) violations() []violation {
	b.t.Helper()
	source, err := axe()
	require.NoError(b.t, err)
	b.script(source)
	found := eval[string](b, `axe.run(document).then((r) => JSON.stringify({violations: r.violations, passes: r.passes.length}))`)
	var report struct {
		Violations []violation `json:"violations"`
		Passes     int         `json:"passes"`
	}
	require.NoError(b.t, json.Unmarshal([]byte(found), &report))
	require.Greater(b.t, report.Passes, 10, "axe has looked")
	return report.Violations
}

// picture is a screenshot of the window, as PNG.
func (b *browser) picture(width, height int64) []byte {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
	return read(b, chromedp.CaptureScreenshot())
}

// tab moves the focus on by one.
func (b *browser) tab() {
	b.t.Helper()
	b.press(kb.Tab)
}
