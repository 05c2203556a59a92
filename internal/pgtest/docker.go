package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

const (
	containerLabel = "dev.payonce.test"
	// containerLife bounds a container that nobody removed.
	containerLife   = 30 * time.Minute
	imageFolder     = "internal/pgtest/image"
	imageRepository = "payonce-postgres-test"
)

// pinnedPool talks to the daemon in the daemon's own API version: the client's
// default is one that newer daemons refuse.
func pinnedPool() (*dockertest.Pool, error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, fmt.Errorf("find the Docker daemon: %w", err)
	}
	version, err := pool.Client.Version()
	if err != nil {
		return nil, fmt.Errorf("ask the Docker daemon: %w", err)
	}
	pinned, err := docker.NewVersionedClient(pool.Client.Endpoint(), version.Get("ApiVersion"))
	if err != nil {
		return nil, fmt.Errorf("connect to the Docker daemon: %w", err)
	}
	pool.Client = pinned
	pool.MaxWait = time.Minute
	return pool, nil
}

func dockerAnswers() bool {
	_, err := pinnedPool()
	return err == nil
}

func startDocker(ctx context.Context) (*server, error) {
	pool, err := pinnedPool()
	if err != nil {
		return nil, err
	}
	if err := sweepContainers(pool); err != nil {
		return nil, err
	}
	tag, err := buildImage(pool)
	if err != nil {
		return nil, err
	}
	container, err := pool.RunWithOptions(&dockertest.RunOptions{
		Repository: imageRepository, Tag: tag,
		Name:         fmt.Sprintf("payonce-test-%d", os.Getpid()),
		Labels:       map[string]string{containerLabel: "true"},
		ExposedPorts: []string{"5432/tcp"},
	}, func(config *docker.HostConfig) {
		config.AutoRemove = true
		config.PortBindings = map[docker.Port][]docker.PortBinding{"5432/tcp": {{HostIP: "127.0.0.1"}}}
	})
	if err != nil {
		return nil, fmt.Errorf("run the test database: %w", err)
	}
	stop := func() { _ = pool.Purge(container) }
	if err := container.Expire(uint(containerLife.Seconds())); err != nil {
		stop()
		return nil, fmt.Errorf("bound the test database's life: %w", err)
	}
	url := fmt.Sprintf("postgres://postgres:payonce@%s/postgres?sslmode=disable", container.GetHostPort("5432/tcp"))
	if err := pool.Retry(func() error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}); err != nil {
		stop()
		return nil, fmt.Errorf("wait for the test database: %w", err)
	}
	return prepare(ctx, &server{admin: url, stop: stop})
}

// sweepContainers removes containers that killed test processes left behind.
func sweepContainers(pool *dockertest.Pool) error {
	left, err := pool.Client.ListContainers(docker.ListContainersOptions{
		All: true, Filters: map[string][]string{"label": {containerLabel}},
	})
	if err != nil {
		return fmt.Errorf("list old test databases: %w", err)
	}
	for _, container := range left {
		if time.Since(time.Unix(container.Created, 0)) > containerLife {
			_ = pool.Client.RemoveContainer(docker.RemoveContainerOptions{ID: container.ID, Force: true, RemoveVolumes: true})
		}
	}
	return nil
}

// buildImage builds the image unless the one of this very Dockerfile is there.
func buildImage(pool *dockertest.Pool) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, imageFolder)
	content, err := os.ReadFile(filepath.Join(folder, "Dockerfile"))
	if err != nil {
		return "", fmt.Errorf("read the test database's Dockerfile: %w", err)
	}
	sum := sha256.Sum256(content)
	tag := hex.EncodeToString(sum[:6])
	name := imageRepository + ":" + tag
	if _, err := pool.Client.InspectImage(name); err == nil {
		return tag, nil
	}
	err = pool.Client.BuildImage(docker.BuildImageOptions{
		Name: name, ContextDir: folder, OutputStream: io.Discard, NetworkMode: "host",
	})
	if err != nil {
		return "", fmt.Errorf("build %s: %w (see what failed: docker build --network=host %s)", name, err, folder)
	}
	return tag, nil
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the module: no go.mod above the test")
		}
		dir = parent
	}
}
