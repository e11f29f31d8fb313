package foundationdb

import (
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
)

func TestVersions(t *testing.T) {
	key := v1alpha1.ConfigMapKey{Name: "db", Key: "file"}
	for version, want := range map[string]bool{
		"7.1.21": false, "7.1.22": true, "7.3.79": true, "7.4.0": true, "6.3.24": false, "7.0.0": false, "8.0.0": false, "7.3": false, "7.3.1.1": false, "": false,
	} {
		spec := &v1alpha1.System{FoundationDB: &v1alpha1.FoundationDB{ClusterFile: v1alpha1.ClusterFile{ConfigMap: &key}, Version: version}}
		_, err := Over(program{}, time.Now, spec, system.Access{ConfigMaps: map[v1alpha1.ConfigMapKey]string{key: "a:b@203.0.113.1:4500"}})
		if (err == nil) != want || err != nil && !strings.HasSuffix(err.Error(), "is not supported: Usher knows versions 7.1.22 and later of major version 7") {
			t.Errorf("%s: %v", version, err)
		}
	}
}
