package binaries

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// CacheEnv names the environment variable that moves the cache.
const CacheEnv = "USHER_LAB_CACHE"

// ErrNotBuilt says that a program is not in the cache.
var ErrNotBuilt = errors.New("not built yet; build the lab's programs with `make lab` (once, some minutes)")

// Cache is the folder that built programs are kept in, one subfolder per version of what they are built from.
type Cache struct {
	Dir string
}

// DefaultCache is $USHER_LAB_CACHE, or usher-lab in the user's cache folder.
func DefaultCache() (Cache, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		return Cache{Dir: dir}, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return Cache{}, fmt.Errorf("finding the cache folder (set %s): %w", CacheEnv, err)
	}
	return Cache{Dir: filepath.Join(dir, "usher-lab")}, nil
}

// Path returns where the built program is. The error wraps ErrNotBuilt when it is not there.
func (c Cache) Path(name string) (string, error) {
	b, ok := Find(name)
	if !ok {
		return "", fmt.Errorf("finding %s: the lab has no program of that name", name)
	}
	path, err := c.target(b)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("finding %s in %s: %w", name, c.Dir, ErrNotBuilt)
	}
	return path, nil
}

// target is where b is, once built. The name of the subfolder stands for everything that goes into the program, so
// a change of versions, flags or compiler builds anew and an old checkout still finds its own.
func (c Cache) target(b Binary) (string, error) {
	dir, err := b.moduleDir()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, file := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return "", fmt.Errorf("reading the version pins of %s: %w", b.Name, err)
		}
		h.Write(content)
	}
	fmt.Fprintln(h, runtime.Version(), runtime.GOARCH, b.Package, b.LDFlags, strings.Join(b.Env, " "))
	key := hex.EncodeToString(h.Sum(nil))[:12]
	return filepath.Join(c.Dir, b.Module+"-"+key, b.Name), nil
}

// moduleDir finds lab/versions/<module> from where this file was compiled: go:embed cannot reach into other modules,
// and the lab is always run from its source tree.
func (b Binary) moduleDir() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(filepath.Dir(file)), "versions", b.Module)
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return "", fmt.Errorf("finding the version pins of %s (run the lab from its source tree, without -trimpath): %w", b.Name, err)
	}
	return dir, nil
}
