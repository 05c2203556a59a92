package version

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	here := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
	commit := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}, {Key: "vcs.time", Value: "2026-12-01T10:00:00Z"},
	}
	for want, build := range map[string]struct {
		module, stamp string
		settings      []debug.BuildSetting
	}{
		"devel (" + here + ")":  {module: "(devel)"},
		"v1.2.3 (" + here + ")": {module: "v1.2.3"},
		"v1.2.4 (" + here + ")": {module: "v1.2.3", stamp: "v1.2.4"},
		"v1.2.3 (commit 0123456789ab of 2026-12-01T10:00:00Z, " + here + ")": {
			module: "v1.2.3", settings: commit,
		},
		"v1.2.3+dirty (commit 0123456789ab of 2026-12-01T10:00:00Z with changes, " + here + ")": {
			module: "v1.2.3+dirty", settings: append(commit, debug.BuildSetting{Key: "vcs.modified", Value: "true"}),
		},
	} {
		got := of(&debug.BuildInfo{Main: debug.Module{Version: build.module}, Settings: build.settings}, build.stamp)
		require.Equal(t, want, got.String())
	}
}
