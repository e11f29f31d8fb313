package realnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"usher.sh/usher/lab/process"
)

func (n *Node) start(ctx context.Context, tools tools) error {
	if err := os.MkdirAll(n.Dir, 0o755); err != nil {
		return err
	}
	if err := n.Disk.make(n.Dir); err != nil {
		return err
	}
	return n.boot(ctx, tools, n.Images)
}

// boot starts the node's first process with an empty /run, which imports the images.
func (n *Node) boot(ctx context.Context, tools tools, images []string) error {
	if err := os.RemoveAll(filepath.Join(n.Dir, "run")); err != nil {
		return err
	}
	for _, folder := range append([]string{"/etc/cni"}, hidden...) {
		if err := os.MkdirAll(filepath.Join(n.Dir, folder), 0o755); err != nil {
			return err
		}
	}
	slot, claim, err := claimFree()
	if err != nil {
		return err
	}
	// The node's first process has its own copy. Holding on to this one would keep the slot taken after the node's end.
	defer claim.Close()
	n.slot = slot
	if err := (mark{Slot: slot, Process: n.Name, Processes: n.Processes}).write(n.Dir); err != nil {
		return err
	}
	if err := slot.build(n.OwnNetwork); err != nil {
		return err
	}
	plan, err := n.plan(tools, images)
	if err != nil {
		return err
	}
	if err := n.writeFiles(plan); err != nil {
		return err
	}
	return n.startInit(ctx, claim)
}

// startInit starts this program again as the node's first process, and returns when that says that the node runs.
func (n *Node) startInit(ctx context.Context, claim *os.File) error {
	news, report, err := os.Pipe()
	if err != nil {
		return err
	}
	defer news.Close()
	n.process, err = process.Start(process.Spec{
		Name:          n.Name,
		Path:          "/proc/self/exe",
		Args:          []string{initArgument, n.Dir},
		Dir:           n.Processes,
		Namespaces:    syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Files:         []*os.File{report, claim},
		EndWithParent: n.EndWithParent,
	})
	report.Close()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { news.Close() })
	defer stop()
	said, err := io.ReadAll(news)
	switch text := strings.TrimSpace(string(said)); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case text == "":
		<-n.process.Ended()
		return n.process.Failure()
	case text != running:
		return errors.New(text)
	}
	return nil
}

// writeFiles writes the configuration of the node's programs.
func (n *Node) writeFiles(p plan) error {
	for name, path := range map[string]string{
		"kubelet.yaml":    p.KubeletConfig,
		"containerd.toml": p.ContainerdConfig,
		"cni.conflist":    filepath.Join(p.CNIConfig, "10-lab.conflist"),
	} {
		var text bytes.Buffer
		if err := templates.ExecuteTemplate(&text, name, p); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return p.write(n.Dir)
}
