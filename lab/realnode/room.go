package realnode

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// leastRoom is how much of a disk a kubelet wants to be free by default, in percent (imagefs.available).
const leastRoom = 15

// CheckRoom returns an error where the disk that holds dir has so little room that kubelets would report DiskPressure and no
// pod would get onto their nodes.
func CheckRoom(dir string) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("looking at the disk of %s: %w", dir, err)
	}
	if free := disk.Bavail * 100 / disk.Blocks; free < leastRoom {
		return fmt.Errorf("only %d%% of the disk that holds %s is free: below %d%% kubelets report DiskPressure, and pods stay pending; make room", free, dir, leastRoom)
	}
	return nil
}
