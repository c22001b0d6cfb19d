; What clang does not write of C, or not always.
;# flags: -O0
define void @types(ptr %p, ptr %q) !dbg !3 {
  %nothing = load {}, ptr %p, align 1, !dbg !6 ; why: not observed (no-memory-form): values of its type have no form in memory
  %never = load i32, ptr %p, align 4, !dbg !7, !invariant.load !9 ; why: not observed (invariant): the compiler says that what is there never changes
  store i32 %never, ptr %q, align 4, !dbg !8 ; why: observed: may be shared: points to memory from argument 2 of `types`
  ret void, !dbg !8
}
define available_externally i32 @elsewhere(ptr %p) !dbg !11 {
  %value = load i32, ptr %p, align 4, !dbg !12 ; why: not observed (untouched): this copy of the function is there for the optimiser alone
  ret i32 %value, !dbg !12
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!10}
!0 = distinct !DICompileUnit(language: DW_LANG_C11, file: !1, producer: "by hand", isOptimized: false, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "types.ll", directory: ".")
!3 = distinct !DISubprogram(name: "types", file: !1, line: 3, type: !4, scopeLine: 3, unit: !0)
!4 = !DISubroutineType(types: !5)
!5 = !{null}
!6 = !DILocation(line: 4, column: 3, scope: !3)
!7 = !DILocation(line: 5, column: 3, scope: !3)
!8 = !DILocation(line: 6, column: 3, scope: !3)
!9 = !{}
!10 = !{i32 2, !"Debug Info Version", i32 3}
!11 = distinct !DISubprogram(name: "elsewhere", file: !1, line: 9, type: !4, scopeLine: 9, unit: !0)
!12 = !DILocation(line: 10, column: 3, scope: !11)
