# SPDX-License-Identifier: MIT
#
# What is wrong with a whole kernel is said at the line of the file that it is in, and with the
# file's own numbers.
. "$(dirname "$0")/lib.sh"

# at PLACE TEXT: kernel.uop is refused there, whichever command reads it
at() {
    refuse "kernel.uop:$1: $2" "$jit" run kernel.uop
    refuse "kernel.uop:$1: $2" "$jit" run kernel.uop --device interp
    refuse "kernel.uop:$1: $2" "$jit" verify kernel.uop
    refuse "kernel.uop:$1: $2" "$jit" emit kernel.uop --emit=asm
}
cat >whole.uop <<'END'
tolk.uop 1
; y = the sum of x, in numbers that are not those of fmt
%10 = const index 8
%90 = param f32 (%10) {slot=0, name="y"}
%80 = param f32 (%10) {slot=1, name="x"}

%30 = range index (%10) {axis=0, kind=global}
%31 = range index (%10) {axis=1, kind=reduce} ; the elements
%40 = index f32 (%80, %31)
%41 = load f32 (%40)
%42 = reduce f32 (%41, %31) {op=add}
%50 = index f32 (%90, %30)
%60 = store void (%50, %42)
%70 = end void (%60, %30)
%71 = sink void (%70) {name="sums"}
END
expect 0 "$jit" run whole.uop --arg x=1
has 'y = f32[8] 8 8 8'

sed -e '/= end /d' -e 's/(%70)/(%60)/' whole.uop >kernel.uop
at 7:7 '%30 range: still open at the sink'
sed 's/slot=1/slot=0/' whole.uop >kernel.uop
at 5:7 '%80 param: slot 0 is that of %90, too'
sed 's/(%41, %31)/(%41, %30)/' whole.uop >kernel.uop
at 11:7 '%42 reduce: folds over a range of kind global, whose iterations have no order (%30)'
sed 's/ {name="sums"}//' whole.uop >kernel.uop
for command in run verify; do
    refuse 'kernel.uop:15:7: %71 sink: its name is missing: expected {name="..."} on the sink of a kernel' \
        "$jit" $command kernel.uop
done
sed 's/(%80, %31)/(%80, %31, %30)/' whole.uop >kernel.uop
at 9:7 '%40 index: 2 indices into a buffer of rank 1'
finish
