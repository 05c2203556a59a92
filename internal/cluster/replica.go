package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// Address is where the server listens, host:port.
func (c *Cluster) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)) }

// Replicate starts a hot standby under options.DataDir that streams from this
// server by a name, which synchronous_standby_names may contain. through is the
// address by which it reaches this server; empty: directly.
func (c *Cluster) Replicate(ctx context.Context, name, through string, options Options) (*Cluster, error) {
	options.Database = c.options.Database
	if options.Logger == nil {
		options.Logger = c.options.Logger
	}
	dir, err := c.account.home(options.DataDir, options.Logger)
	if err != nil {
		return nil, err
	}
	standby := &Cluster{dir: dir, account: c.account, options: options, binaries: c.binaries, password: c.password}
	if standby.lock, err = lockFolder(dir); err != nil {
		return nil, err
	}
	if through == "" {
		through = c.Address()
	}
	if err := standby.copyFrom(ctx, name, through); err != nil {
		return nil, errors.Join(err, standby.lock.Close())
	}
	if err := standby.launch(ctx); err != nil {
		return nil, errors.Join(err, standby.lock.Close())
	}
	return standby, nil
}

func (c *Cluster) copyFrom(ctx context.Context, name, address string) error {
	if err := c.account.writeFile(c.passwordFile(), c.password+"\n"); err != nil {
		return err
	}
	primary := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, c.password), Host: address,
		RawQuery: url.Values{"application_name": {name}, "sslmode": {"disable"}}.Encode(),
	}
	// --write-recovery-conf makes the copy a standby of where it came from.
	backup := exec.CommandContext(ctx, c.binaries.path("pg_basebackup"), "--pgdata", c.dataDir(),
		"--dbname", primary.String(), "--wal-method", "stream", "--checkpoint", "fast", "--write-recovery-conf")
	backup.Dir = c.dir
	backup.Env = append(os.Environ(), "LC_ALL=C")
	c.account.apply(backup)
	if output, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup into %s: %w\n%s", c.dir, err, tail(string(output)))
	}
	return nil
}

// Await makes every commit wait until the named standby has it (name empty: no
// longer). Only call it while that standby streams: without it nothing commits.
func (c *Cluster) Await(ctx context.Context, name string) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to the primary: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, sql := range []string{
		"ALTER SYSTEM SET synchronous_standby_names = '" + name + "'", "SELECT pg_catalog.pg_reload_conf()",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("wait for standby %q: %w", name, err)
		}
	}
	for {
		var sync bool
		err := conn.QueryRow(ctx, "SELECT $1 = '' OR EXISTS (SELECT FROM pg_catalog.pg_stat_replication"+
			" WHERE application_name = $1 AND sync_state = 'sync')", name).Scan(&sync)
		if err != nil || sync {
			return err //nolint:wrapcheck // the connection's own
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// Promote makes a standby a primary.
func (c *Cluster) Promote(ctx context.Context) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to the standby: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var promoted bool
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_promote(true, 60)").Scan(&promoted); err != nil {
		return fmt.Errorf("promote the standby: %w", err)
	}
	if !promoted {
		return errors.New("promote the standby: it was not promoted within 60 seconds")
	}
	return nil
}
