package realnode

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// leastRoom is how much of a disk must be free for real nodes, in bytes: what their kubelets keep free (1 GiB, files/kubelet.yaml)
// and what several nodes unpack and log.
const leastRoom = 4 << 30

// CheckRoom returns an error where the disk that holds dir has so little room that kubelets would report DiskPressure and no
// pod would get onto their nodes.
func CheckRoom(dir string) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("looking at the disk of %s: %w", dir, err)
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < leastRoom {
		return fmt.Errorf("the disk that holds %s has %d MiB free, and real nodes need %d: kubelets would report DiskPressure and pods stay pending; make room", dir, free>>20, leastRoom>>20)
	}
	return nil
}
