// Package postgres opens the pool of connections that the server's calls go
// through: one round trip a call, statements prepared when a connection is made.
package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Open makes a pool for a libpq URL and prepares the statements on each new
// connection, unless the URL asks for a query exec mode without named prepared
// statements (default_query_exec_mode=exec, for a transaction pooler that does
// not track them).
//
// An idle connection is not pinged before use, as pgx would do after a second:
// that is a round trip on the next customer's payment. Instead its socket is
// asked whether the server has hung up, which costs no message.
func Open(ctx context.Context, url string, statements ...string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read database URL: %w", err)
	}
	return OpenConfig(ctx, config, statements...)
}

// OpenConfig is Open for a configuration made by pgxpool.ParseConfig.
func OpenConfig(ctx context.Context, config *pgxpool.Config, statements ...string) (*pgxpool.Pool, error) {
	switch config.ConnConfig.DefaultQueryExecMode {
	case pgx.QueryExecModeCacheStatement:
		config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			return prepare(ctx, conn, statements)
		}
	case pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol:
	}
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	config.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
		return alive(conn.PgConn().Conn()), nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	return pool, nil
}

// prepare names each statement by its own text, which is how pgx finds it
// again when the text is run.
func prepare(ctx context.Context, conn *pgx.Conn, statements []string) error {
	for _, sql := range statements {
		if _, err := conn.Prepare(ctx, sql, sql); err != nil {
			return fmt.Errorf("prepare statement %.40q: %w", sql, err)
		}
	}
	return nil
}

// Connect opens one connection for a URL that may carry settings of a pool too,
// such as pool_max_conns, which a server would refuse.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read database URL: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return conn, nil
}
