package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/payonce/payonce/internal/listener"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/secret"
	"github.com/payonce/payonce/internal/tracing"
)

// settings are what the commands share; each command takes the flags it needs.
type settings struct {
	databaseURL string
	dataDir     string
	autoMigrate bool
	listen      string
	tlsCert     string
	tlsKey      string
	maxOpen     int
	simListen   string
	limits      payments.Limits
	purgeEvery  time.Duration
	outboxURL   string
	stopWithin  time.Duration
	drainDelay  time.Duration
	console     consoleSettings

	// tracing is nil when it is off.
	tracing *tracing.Tracing
}

func (s *settings) databaseFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.databaseURL, "database-url", "",
		"libpq URL of the database; empty: a private cluster from the local PostgreSQL binaries")
	flags.StringVar(&s.dataDir, "data-dir", ".payonce", "folder of the private cluster and of development keys")
	markSecret(flags, "database-url")
}

// listenerFlags are what serve and proxy have in common.
func (s *settings) listenerFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8080", "address to serve on")
	flags.IntVar(&s.maxOpen, "max-connections", 4096, "how many connections may be open at once; 0: no bound")
	flags.BoolVar(&s.autoMigrate, "auto-migrate", false, "apply pending migrations at start")
	flags.DurationVar(&s.purgeEvery, "purge-every", time.Hour, "how often expired keys are purged where pg_cron does not")
	flags.DurationVar(&s.stopWithin, "stop-within", 45*time.Second, "bound on finishing running requests after SIGTERM; then they are left in doubt")
	flags.DurationVar(&s.drainDelay, "drain-delay", 0, "how long to look unready but serve on after SIGTERM, for load balancers to notice")
}

// tlsFlags are for what may stand without a proxy in front that speaks TLS.
func (s *settings) tlsFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.tlsCert, "tls-cert", "", "PEM file with the certificate to serve TLS with, and what it was signed by; read anew when it changes")
	flags.StringVar(&s.tlsKey, "tls-key", "", "PEM file with the private key of --tls-cert")
}

// open opens the address to serve on.
func (s *settings) open(ctx context.Context, log *slog.Logger) (net.Listener, error) {
	opened, err := listener.Open(ctx, listener.Options{
		Address: s.listen, CertFile: s.tlsCert, KeyFile: s.tlsKey, MaxConnections: s.maxOpen, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("%w (--listen, --tls-cert, --tls-key)", err)
	}
	return opened, nil
}

func (s *settings) serverFlags(flags *pflag.FlagSet) {
	s.databaseFlags(flags)
	s.listenerFlags(flags)
	s.consoleFlags(flags)
	limits := payments.DefaultLimits()
	flags.DurationVar(&s.limits.Lease, "lease", limits.Lease, "how long a claim is held before another request may take the work over")
	flags.DurationVar(&s.limits.TTL, "key-ttl", limits.TTL, "how long a stored response is replayed")
	flags.DurationVar(&s.limits.EventTTL, "event-ttl", limits.EventTTL, "how long a notification is known, so that sending it again has no effect")
	flags.DurationVar(&s.limits.Deadline, "provider-deadline", limits.Deadline,
		"bound on all that is asked of a provider for one charge; at least 10s below the lease")
	flags.StringVar(&s.outboxURL, "outbox-url", "", "where confirmations and notices are posted to; empty: they wait in payments.outbox")
	markSecret(flags, "outbox-url")
}

// secretFlag marks a flag whose value is or may hold a secret. It can be given
// in a file too: --database-url in the one that PAYONCE_DATABASE_URL_FILE names.
const secretFlag = "payonce_secret"

// markSecret marks flags of the set; docs/operations.md lists them.
func markSecret(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flag := flags.Lookup(name)
		flag.Usage += " (or in a file: " + variable(flag) + secret.FileSuffix + ")"
		_ = flags.SetAnnotation(name, secretFlag, []string{"true"})
	}
}

// variable is the name of a flag in the environment: PAYONCE_DATA_DIR for --data-dir.
func variable(flag *pflag.Flag) string {
	return "PAYONCE_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
}

// fromEnvironment sets each flag that was not given from the environment.
func fromEnvironment(cmd *cobra.Command) error {
	var failed error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Changed || failed != nil {
			return
		}
		value, ok := os.LookupEnv(variable(flag))
		if flag.Annotations[secretFlag] != nil {
			var given bool
			value, given, failed = secret.Read(os.Getenv, variable(flag))
			ok = ok || given
		}
		if !ok || failed != nil {
			return
		}
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			failed = fmt.Errorf("%s: %w", variable(flag), err)
		}
	})
	return failed
}
