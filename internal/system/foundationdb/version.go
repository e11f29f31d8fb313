package foundationdb

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"usher.sh/usher/internal/text"
)

// oldest is the first version whose status says since when the cluster has recovered.
var oldest = []int{7, 1, 22}

// supported reports an error unless a cluster of the version can be judged: of another major version the status may have another shape.
func supported(version string) error {
	parts, known := parsed(version)
	if !known || parts[0] != oldest[0] || slices.Compare(parts, oldest) < 0 {
		return fmt.Errorf("FoundationDB %s is not supported: Usher knows versions 7.1.22 and later of major version 7", text.Name(version))
	}
	return nil
}

// byLocality reports whether a version of FoundationDB excludes by locality without a fault: 7.1 from 7.1.42 on, later ones from 7.3.26 on.
func byLocality(version string) bool {
	parts, known := parsed(version)
	switch {
	case !known:
		return false
	case parts[0] == 7 && parts[1] == 1:
		return parts[2] >= 42
	}
	return slices.Compare(parts, []int{7, 3, 26}) >= 0
}

// parsed are the three numbers of a version.
func parsed(version string) (parts []int, known bool) {
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		parts = append(parts, n)
	}
	return parts, len(parts) == 3
}
