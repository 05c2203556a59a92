package stage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/payonce/payonce/internal/childproc"
	"github.com/payonce/payonce/internal/freeport"
)

const (
	startTimeout = 30 * time.Second
	// stopTimeout is above what a server takes to finish or halt its requests.
	stopTimeout = 75 * time.Second
)

// ServerOptions say which server a Server is.
type ServerOptions struct {
	// Binary is the payonce program.
	Binary string
	// Args are the command and its flags, without --listen.
	Args []string
	// Environment holds its settings, NAME=value; no other PAYONCE_ variable
	// reaches it.
	Environment []string
	// Dir is where its log goes, Name what the log is called.
	Dir, Name string
	// Address is where it listens; empty: a free one.
	Address string
}

// Server is a payonce server as a process of its own. It listens on the same
// address each time it is started. Safe for use by several goroutines.
type Server struct {
	options ServerOptions

	mu      sync.Mutex
	process *exec.Cmd
	exited  chan struct{}
	paused  bool
}

// NewServer makes a Server that is not running yet.
func NewServer(ctx context.Context, options ServerOptions) (*Server, error) {
	if options.Address == "" {
		address, err := freeport.Address(ctx)
		if err != nil {
			return nil, err
		}
		options.Address = address
	}
	return &Server{options: options}, nil
}

// Address is where the server listens, host:port.
func (s *Server) Address() string { return s.options.Address }

// URL is the address of its API.
func (s *Server) URL() string { return "http://" + s.options.Address }

// Name is what it is called.
func (s *Server) Name() string { return s.options.Name }

func (s *Server) logFile() string { return filepath.Join(s.options.Dir, s.options.Name+".log") }

// Start starts the server and returns when it answers. One that ends instead
// is an error with the end of its log.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		return nil
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", s.options.Name, err)
	}
	defer func() { _ = log.Close() }()
	s.process = exec.Command(s.options.Binary, append(s.options.Args, "--listen", s.options.Address)...) //nolint:gosec,noctx // our own program; Stop ends it
	s.process.Env = environment(s.options.Environment)
	s.process.Stdout, s.process.Stderr = log, log
	s.exited, s.paused = make(chan struct{}), false
	if err := childproc.Start(s.process, syscall.SIGKILL, s.exited); err != nil {
		s.process = nil
		return fmt.Errorf("start %s: %w", s.options.Name, err)
	}
	if err := s.awaitAnswer(ctx); err != nil {
		s.end(syscall.SIGKILL)
		return fmt.Errorf("start %s: %w\n%s", s.options.Name, err, s.logTail())
	}
	return nil
}

func (s *Server) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/healthz", nil)
		if err != nil {
			return fmt.Errorf("make the request: %w", err)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			return response.Body.Close()
		}
		select {
		case <-s.exited:
			return errors.New("it ended at once; its log ends with")
		case <-ctx.Done():
			return fmt.Errorf("it did not answer: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// running tells whether the process is there. The caller holds mu.
func (s *Server) running() bool {
	if s.process == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// Kill ends the server as a crash would: kill -9. It may be paused.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(syscall.SIGKILL)
}

// Pause stops the server in the middle of whatever it does, with SIGSTOP.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP, true) }

// Continue lets a paused server go on where it was.
func (s *Server) Continue() { s.signal(syscall.SIGCONT, false) }

func (s *Server) signal(signal syscall.Signal, paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		_ = s.process.Process.Signal(signal)
		s.paused = paused
	}
}

// Stop asks the server to finish its requests and end, as a deployment does;
// one that does not is killed, which is an error.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return nil
	}
	if s.paused {
		_ = s.process.Process.Signal(syscall.SIGCONT)
	}
	_ = s.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
		return nil
	case <-time.After(stopTimeout):
		s.end(syscall.SIGKILL)
		return fmt.Errorf("%s did not stop within %s of SIGTERM\n%s", s.options.Name, stopTimeout, s.logTail())
	}
}

// end sends a signal and waits until the process has gone. The caller holds mu.
func (s *Server) end(signal syscall.Signal) {
	if s.running() {
		_ = s.process.Process.Signal(signal)
		<-s.exited
	}
}

// logTail is the end of the server's log.
func (s *Server) logTail() string {
	const lines = 15
	content, err := os.ReadFile(s.logFile())
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
