package console

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// loginForm is what the login page shows.
type loginForm struct {
	Name, Next, Problem string
	// Password tells that there is a password to log in with, PlainHTTP that
	// it must not be given over this connection.
	Password, PlainHTTP bool
}

// ours keeps a page of the console to go to after the login, and nothing else.
func ours(next string) string {
	to, err := url.Parse(next)
	if err != nil || to.Scheme != "" || to.Host != "" || (to.Path != Root && !strings.HasPrefix(to.Path, Root+"/")) ||
		to.Path == Root+"/login" {
		return Root
	}
	return to.RequestURI()
}

func (c *Console) showLogin(v *visit) error {
	next := ours(v.r.URL.Query().Get("next"))
	if v.person != "" {
		v.redirect(next)
		return nil
	}
	return v.loginPage(http.StatusOK, loginForm{Next: next})
}

func (v *visit) loginPage(status int, form loginForm) error {
	form.Password = v.Access.Password != ""
	title := v.text("login")
	if !form.Password {
		title, status = v.text("login_proxy_title"), http.StatusForbidden
	}
	return v.render(status, "login", title, form)
}

func (c *Console) logIn(v *visit) error {
	now := time.Now()
	form := loginForm{Name: v.form.Get("name"), Next: ours(v.form.Get("next"))}
	if c.Access.Password == "" {
		return v.loginPage(http.StatusForbidden, form)
	}
	if overPlainHTTP(v.r) {
		form.PlainHTTP = true
		return v.loginPage(http.StatusForbidden, form)
	}
	from := c.Access.client(v.r)
	if wait := c.throttle.attempt(from, now); wait > 0 {
		form.Problem = v.text("login_throttled", v.language.period(wait+time.Second))
		return v.loginPage(http.StatusTooManyRequests, form)
	}
	name, err := readName(form.Name)
	if !c.sessions.right(v.form.Get("password")) || err != nil {
		c.Log.WarnContext(v.r.Context(), "a login to the console failed", "from", from.String())
		form.Problem = v.text("login_wrong")
		return v.loginPage(http.StatusForbidden, form)
	}
	c.throttle.passed(from)
	token, err := c.sessions.begin(name, now)
	if err != nil {
		return err
	}
	c.Log.InfoContext(v.r.Context(), "logged in to the console", "operator", name, "from", from.String())
	http.SetCookie(v.w, cookieFor(v.r, sessionCookie, token, sessionLife))
	v.redirect(form.Next)
	return nil
}

func (c *Console) logOut(v *visit) error {
	if v.loggedIn {
		c.sessions.end(v.session, time.Now())
	}
	http.SetCookie(v.w, cookieFor(v.r, sessionCookie, "", -1))
	v.redirect(Root + "/login")
	return nil
}
