package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/pflag"

	"github.com/payonce/payonce/internal/console"
	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/internal/secret"
)

// devConsolePassword is that of the console of `payonce dev`, which has a
// simulator's money only.
const devConsolePassword = "payonce-in-dev" //nolint:gosec // of a server that has no real money

// consoleConnections bounds what the console takes of the database.
const consoleConnections = 4

// consoleSettings are those of the operators' console.
type consoleSettings struct {
	// password is one that needs no file.
	password     string
	passwordFile string
	userHeader   string
	proxies      []string
	databaseURL  string
}

func (s *settings) consoleFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.console.passwordFile, "console-password-file", "",
		"file with the operators' password for "+console.Root+"; or set PAYONCE_CONSOLE_PASSWORD")
	flags.StringVar(&s.console.userHeader, "console-user-header", "",
		"header in which a proxy in front names who it has authenticated, for "+console.Root)
	flags.StringSliceVar(&s.console.proxies, "console-trusted-proxies", nil,
		"addresses and networks of the proxies that this header and X-Forwarded-For are believed from")
	flags.StringVar(&s.console.databaseURL, "console-database-url", "",
		"libpq URL of the database as the owner of the schemas; empty: --database-url")
	markSecret(flags, "console-database-url")
}

// consoleLine tells where the console of `payonce dev` is.
func (s *settings) consoleLine(address string) string {
	line := "The console, with the story of each order: http://" + address + console.Root + "\n"
	if s.console.password != "" {
		line += "(any name, password " + s.console.password + ")\n"
	}
	return line
}

// consolePassword names the operators' password in the environment.
const consolePassword = "PAYONCE_CONSOLE_PASSWORD"

// variable reads the environment, where --console-password-file stands for its
// own variable.
func (c consoleSettings) variable(name string) string {
	if name == consolePassword+secret.FileSuffix {
		return c.passwordFile
	}
	return os.Getenv(name)
}

// access says who may come into the console; nobody where it is not configured.
func (c consoleSettings) access() (console.Access, error) {
	access := console.Access{Password: c.password, UserHeader: c.userHeader}
	var err error
	if access.Password == "" {
		if access.Password, _, err = secret.Read(c.variable, consolePassword); err != nil {
			return access, err
		}
	}
	if access.TrustedProxies, err = console.ParseProxies(c.proxies); err != nil {
		return access, err
	}
	return access, access.Check()
}

// withConsole puts the console beside the API where it is configured. close
// ends what it opened.
func (s *settings) withConsole(
	ctx context.Context, api http.Handler, databaseURL string, options console.Options,
) (handler http.Handler, closeConsole func(), err error) {
	access, err := s.console.access()
	if err != nil {
		return nil, nil, err
	}
	if !access.Enabled() {
		return api, func() {}, nil
	}
	if s.console.databaseURL != "" {
		databaseURL = s.console.databaseURL
	}
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, nil, fmt.Errorf("read the console's database URL: %w", err)
	}
	config.MaxConns = min(config.MaxConns, consoleConnections)
	pool, err := postgres.OpenConfig(ctx, config)
	if err != nil {
		return nil, nil, fmt.Errorf("open the console: %w", err)
	}
	options.Access, options.Pool = access, pool
	pages, err := console.New(ctx, options)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == console.Root || strings.HasPrefix(r.URL.Path, console.Root+"/") {
			pages.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	}), pool.Close, nil
}
