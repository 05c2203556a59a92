package console

import (
	"fmt"
	"net/http"
	"time"

	accept "golang.org/x/text/language"
)

// language is one that the console speaks.
type language int

const (
	english language = iota
	chinese
	languages
)

var (
	languageTags  = [languages]string{"en", "zh-CN"}
	languageCodes = [languages]string{"en", "zh"}
)

// tag is the language's BCP 47 tag, code its name in ?lang=.
func (l language) tag() string { return languageTags[l] }

func (l language) code() string { return languageCodes[l] }

func (l language) other() language { return languages - 1 - l }

// text is one text in both languages, English first.
type text [languages]string

// matcher finds the language for an Accept-Language header.
var matcher = accept.NewMatcher([]accept.Tag{accept.English, accept.Chinese})

func languageNamed(code string) (language, bool) {
	for l := range languages {
		if l.code() == code {
			return l, true
		}
	}
	return english, false
}

// chooseLanguage is what the visitor chose before, or else the browser's.
func (v *visit) chooseLanguage() language {
	if cookie, err := v.r.Cookie(cookieName(v.r, languageCookie)); err == nil {
		if chosen, ok := languageNamed(cookie.Value); ok {
			return chosen
		}
	}
	_, index := accept.MatchStrings(matcher, v.r.Header.Get("Accept-Language"))
	return language(index)
}

// switchedLanguage takes ?lang= for the visitor's choice, and goes back to the
// page without it.
func (v *visit) switchedLanguage() bool {
	query := v.r.URL.Query()
	chosen, ok := languageNamed(query.Get("lang"))
	if !ok || !v.reads() {
		return false
	}
	http.SetCookie(v.w, cookieFor(v.r, languageCookie, chosen.code(), 365*24*time.Hour))
	query.Del("lang")
	back := *v.r.URL
	back.RawQuery = query.Encode()
	v.redirect(back.RequestURI())
	return true
}

// inOtherLanguage is the address of this page in the other language.
func (v *visit) inOtherLanguage() string {
	there := *v.r.URL
	query := there.Query()
	if !v.reads() {
		// The answer to a form: its own fields name the page.
		for _, name := range []string{"scope", "key"} {
			if value := v.form.Get(name); value != "" {
				query.Set(name, value)
			}
		}
	}
	query.Set("lang", v.language.other().code())
	there.RawQuery = query.Encode()
	return there.RequestURI()
}

// text is a text in the visitor's language.
func (v *visit) text(name string, args ...any) string { return v.language.text(name, args...) }

func (l language) text(name string, args ...any) string {
	found, ok := texts[name]
	if !ok {
		return name
	}
	if len(args) == 0 {
		return found[l]
	}
	return fmt.Sprintf(found[l], args...)
}

// period writes a duration for people, in its largest unit.
func (l language) period(d time.Duration) string {
	switch d = max(d, 0).Round(time.Second); {
	case d >= 48*time.Hour:
		return l.text("days", int64(d/(24*time.Hour)))
	case d >= 2*time.Hour:
		return l.text("hours", int64(d/time.Hour))
	case d >= 2*time.Minute:
		return l.text("minutes", int64(d/time.Minute))
	default:
		return l.text("seconds", int64(d/time.Second))
	}
}
