package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/payonce/payonce/internal/httpguard"
)

// The console's cookies beside the session's, and the field that repeats one.
const (
	formCookie     = "payonce_form"
	formField      = "form_token"
	noticeCookie   = "payonce_notice"
	languageCookie = "payonce_language"
)

// lookFor bounds how long a page may look into the database.
const lookFor = 30 * time.Second

// visit is one request, and what was found out about it.
type visit struct {
	*Console
	w        http.ResponseWriter
	r        *http.Request
	language language
	// person is who it is; empty before the login.
	person  string
	session session
	// loggedIn tells that the person came by the password, and can log out.
	loggedIn bool
	// formToken is what each form repeats from the visitor's cookie.
	formToken string
	form      url.Values
}

// anybody serves a page to whoever comes.
func (c *Console) anybody(serve func(*visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// Looking ends when nobody waits any more; what is done is done to its end.
		ctx := context.WithoutCancel(r.Context())
		if reads(r) {
			looking, cancel := context.WithTimeout(r.Context(), lookFor)
			defer cancel()
			ctx = looking
		}
		r = r.WithContext(ctx)
		v := &visit{Console: c, w: w, r: r}
		v.language = v.chooseLanguage()
		if v.switchedLanguage() {
			return
		}
		v.identify()
		err := v.readForm()
		if err == nil {
			err = serve(v)
		}
		if err != nil {
			v.failed(err) //nolint:contextcheck // a visit has its own
		}
	}
}

// operators serves a page to those who may come in.
func (c *Console) operators(serve func(*visit) error) http.HandlerFunc {
	return c.anybody(func(v *visit) error {
		if v.person != "" {
			return serve(v)
		}
		back := Root
		if v.reads() {
			back = v.r.URL.RequestURI()
		}
		v.redirect(Root + "/login?" + url.Values{"next": {back}}.Encode())
		return nil
	})
}

func (v *visit) reads() bool { return reads(v.r) }

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// identify finds out who it is: the person that the proxy names, or the one
// who logged in.
func (v *visit) identify() {
	if v.person = v.Access.person(v.r); v.person != "" {
		return
	}
	cookie, err := v.r.Cookie(cookieName(v.r, sessionCookie))
	if err != nil || v.Access.Password == "" {
		return
	}
	if found, ok := v.sessions.read(cookie.Value, time.Now()); ok {
		v.session, v.person, v.loggedIn = found, found.Name, true
	}
}

// refusal is an answer of its own: a status and the text that tells why.
type refusal struct {
	status int
	text   string
}

func (r refusal) Error() string { return r.text }

// readForm reads a form that a page of ours was sent from, and refuses any
// other: a browser tells where a request comes from, and the form repeats a
// cookie that no other site can read or set.
func (v *visit) readForm() error {
	cookie, err := v.r.Cookie(cookieName(v.r, formCookie))
	if err == nil && len(cookie.Value) >= 26 {
		v.formToken = cookie.Value
	}
	if v.reads() {
		if v.formToken == "" {
			v.formToken = rand.Text()
			http.SetCookie(v.w, cookieFor(v.r, formCookie, v.formToken, 0))
		}
		return nil
	}
	if err := v.cross.Check(v.r); err != nil {
		return refusal{http.StatusForbidden, "error.cross"}
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if err := v.r.ParseForm(); err != nil {
		return refusal{http.StatusBadRequest, "error.bad_form"}
	}
	v.form = v.r.PostForm
	given := v.form.Get(formField)
	if v.formToken == "" || subtle.ConstantTimeCompare([]byte(given), []byte(v.formToken)) != 1 {
		return refusal{http.StatusForbidden, "error.cross"}
	}
	return nil
}

// page is what every template gets.
type page struct {
	Title     string
	Here      string
	Person    string
	LoggedIn  bool
	FormToken string
	// Notice is the text for what was done just now.
	Notice string
	// Other is the address of this page in the other language.
	Other string
	Query string
	Body  any
}

// render answers with a page.
func (v *visit) render(status int, name, title string, body any) error {
	var out bytes.Buffer
	p := page{
		Title: title, Here: v.r.URL.Path, Person: v.person, LoggedIn: v.loggedIn, FormToken: v.formToken,
		Notice: v.takeNotice(), Other: v.inOtherLanguage(), Query: v.r.URL.Query().Get("q"), Body: body,
	}
	if err := v.pages[v.language].render(&out, name, p); err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.Header().Set("Content-Language", v.language.tag())
	v.w.Header().Add("Vary", "Accept-Language, Cookie")
	v.w.WriteHeader(status)
	_, _ = out.WriteTo(v.w)
	return nil
}

func (v *visit) redirect(to string) { http.Redirect(v.w, v.r, to, http.StatusSeeOther) }

// say has the next page tell what was done, and goes there.
func (v *visit) say(notice, to string) error {
	http.SetCookie(v.w, cookieFor(v.r, noticeCookie, notice, time.Minute))
	v.changed()
	v.redirect(to)
	return nil
}

// takeNotice is what the page before wanted said.
func (v *visit) takeNotice() string {
	cookie, err := v.r.Cookie(cookieName(v.r, noticeCookie))
	if err != nil {
		return ""
	}
	http.SetCookie(v.w, cookieFor(v.r, noticeCookie, "", -1))
	if said, ok := texts["done."+cookie.Value]; ok {
		return said[v.language]
	}
	return ""
}

// fail answers with a page that says what is wrong.
func (v *visit) fail(status int, name string, args ...any) error {
	return v.render(status, "error", v.text("error.title"), v.text(name, args...))
}

// failed answers where a page could not be made.
func (v *visit) failed(err error) {
	var refused refusal
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		err = v.fail(refused.status, refused.text)
	case errors.As(err, &pgErr) && pgErr.Code == "42501":
		v.Log.ErrorContext(v.r.Context(), "the console's role may not do this", "error", err)
		err = v.fail(http.StatusInternalServerError, "error.rights")
	default:
		info := httpguard.InfoOf(v.r.Context())
		v.Log.ErrorContext(v.r.Context(), "a page of the console failed", "request_id", info.ID, "error", err)
		err = v.fail(http.StatusServiceUnavailable, "error.database", info.ID)
	}
	if err != nil {
		v.Log.ErrorContext(v.r.Context(), "the console's error page failed", "error", err)
		http.Error(v.w, "internal error", http.StatusInternalServerError)
	}
}
