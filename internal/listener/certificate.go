package listener

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// lookEvery bounds how often the files are looked at.
const lookEvery = time.Second

// certificate is what two files hold, now or after a renewal.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu     sync.Mutex
	loaded *tls.Certificate
	// seen is how the files were when they were last read, with success or not.
	seen   [2]fileState
	looked time.Time
}

// fileState changes when a file is written or replaced.
type fileState struct {
	modified time.Time
	size     int64
}

func newCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	seen, err := c.state()
	if err == nil {
		err = c.read()
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificate and its key: %w", err)
	}
	c.seen, c.looked = seen, time.Now()
	return c, nil
}

func (c *certificate) state() (state [2]fileState, err error) {
	for i, path := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(path)
		if err != nil {
			return state, err //nolint:wrapcheck // names the file
		}
		state[i] = fileState{info.ModTime(), info.Size()}
	}
	return state, nil
}

func (c *certificate) read() error {
	loaded, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err //nolint:wrapcheck // says which file, or that the two do not match
	}
	c.loaded = &loaded
	return nil
}

// get is for tls.Config. A renewal that cannot be read, as one of which only
// half is there, leaves the certificate as it was; the next change is tried
// again.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= lookEvery {
		c.looked = now
		c.renew()
	}
	return c.loaded, nil
}

func (c *certificate) renew() {
	state, err := c.state()
	if err == nil && state == c.seen {
		return
	}
	if err == nil {
		c.seen = state
		err = c.read()
	}
	if err != nil {
		c.log.Error("the renewed certificate cannot be read; the one before stays in use", "error", err)
		return
	}
	c.log.Info("certificate renewed", "file", c.certFile, "subject", c.loaded.Leaf.Subject.String(), "not_after", c.loaded.Leaf.NotAfter)
}
