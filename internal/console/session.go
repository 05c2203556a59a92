package console

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// sessionLife is how long a login lasts.
	sessionLife = 8 * time.Hour
	// derivations makes each guess at the password from a stolen cookie slow:
	// OWASP's number for PBKDF2 with HMAC-SHA-256,
	// https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html
	derivations = 600_000
)

// session is a login. It lives in the browser's cookie, signed with a key that
// is derived from the password: every server with that password takes it, and
// none after the password has changed.
type session struct {
	Name  string `json:"n"`
	Until int64  `json:"u"` // seconds since 1970
	ID    string `json:"i"`
}

// sessions makes and reads sessions.
type sessions struct {
	password [sha256.Size]byte
	key      func() ([]byte, error)

	mu sync.Mutex
	// ended are logins that were logged out here, with the end of their life.
	ended map[string]time.Time
}

func newSessions(password string) *sessions {
	return &sessions{
		password: sha256.Sum256([]byte(password)),
		key: sync.OnceValues(func() ([]byte, error) {
			return pbkdf2.Key(sha256.New, password, []byte("payonce console session"), derivations, sha256.Size)
		}),
		ended: map[string]time.Time{},
	}
}

// right compares a password in constant time.
func (s *sessions) right(password string) bool {
	sum := sha256.Sum256([]byte(password))
	return subtle.ConstantTimeCompare(sum[:], s.password[:]) == 1
}

func (s *sessions) sign(payload string) (string, error) {
	key, err := s.key()
	if err != nil {
		return "", fmt.Errorf("derive the console's session key: %w", err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(payload))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}

// begin makes the token of a new session.
func (s *sessions) begin(name string, now time.Time) (string, error) {
	encoded, err := json.Marshal(session{Name: name, Until: now.Add(sessionLife).Unix(), ID: rand.Text()})
	if err != nil {
		return "", fmt.Errorf("begin a console session: %w", err)
	}
	payload := base64.RawURLEncoding.EncodeToString(encoded)
	signature, err := s.sign(payload)
	return payload + "." + signature, err
}

// read returns the session of a token that is ours, lasts and was not ended.
func (s *sessions) read(token string, now time.Time) (session, bool) {
	payload, signature, ok := strings.Cut(token, ".")
	if !ok || len(token) > 4096 {
		return session{}, false
	}
	want, err := s.sign(payload)
	if err != nil || subtle.ConstantTimeCompare([]byte(signature), []byte(want)) != 1 {
		return session{}, false
	}
	decoded, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return session{}, false
	}
	var found session
	if err := json.Unmarshal(decoded, &found); err != nil || now.Unix() >= found.Until {
		return session{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, over := s.ended[found.ID]
	return found, !over
}

// end logs a session out, as far as this server is concerned.
func (s *sessions) end(ending session, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, until := range s.ended {
		if now.After(until) {
			delete(s.ended, id)
		}
	}
	s.ended[ending.ID] = time.Unix(ending.Until, 0)
}

// sessionCookie is the plain name of the session's cookie.
const sessionCookie = "payonce_console"

// cookieFor is a cookie of the console: for this browser session when life is
// 0, gone when it is negative. Its __Host- name lets no other host of the domain
// set it; that needs TLS, which a loopback address has not.
func cookieFor(r *http.Request, name, value string, life time.Duration) *http.Cookie {
	cookie := &http.Cookie{ //nolint:gosec // not Secure on a loopback address alone
		Name: cookieName(r, name), Value: value, Path: "/", MaxAge: int(life.Seconds()), HttpOnly: true,
		Secure: !onLoopback(r), SameSite: http.SameSiteStrictMode,
	}
	if life < 0 {
		cookie.MaxAge = -1
	}
	return cookie
}

func cookieName(r *http.Request, name string) string {
	if onLoopback(r) {
		return name
	}
	return "__Host-" + name
}
